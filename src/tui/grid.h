// The screen as cells: what is drawn onto, compared with the frame before, and looked at by tests. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/text_page.h"

namespace stepscope::tui {

struct Cell {
  std::string glyph = " ";  // one character with what combines with it; "" = the right half of the one before
  Ink ink;

  bool operator==(const Cell&) const = default;
};

class Grid {
 public:
  Grid() = default;
  Grid(int columns, int rows);  // blank

  int columns() const { return columns_; }
  int rows() const { return rows_; }
  const Cell& at(int x, int y) const { return cells_[index(x, y)]; }

  // From (x, y) to the right, cut at the edge; outside of the grid nothing. Returns the column behind the text. Text
  // must be printable (report/text_layout.h).
  int put(int x, int y, std::string_view text, const Ink& ink = {});
  int put(int x, int y, const TextPage::Line& line);
  // Gives all of a row the look of being chosen.
  void reverse(int x, int y, int columns);

  // Rows as text, trailing blanks dropped, each with its end.
  std::string text() const;

 private:
  size_t index(int x, int y) const {
    return static_cast<size_t>(y) * static_cast<size_t>(columns_) + static_cast<size_t>(x);
  }

  int columns_ = 0, rows_ = 0;
  std::vector<Cell> cells_;
};

}  // namespace stepscope::tui
