// A page of terminal text: headings, labelled paragraphs, tables; never wider than its columns. It is kept as lines of
// pieces with their ink: a summary takes it as text, the terminal view line by line. All text is made printable here.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/ink.h"
#include "report/table.h"

namespace stepscope {

class TextPage {
 public:
  explicit TextPage(size_t columns) : columns_(columns) {}

  // A piece of a line with its own ink.
  struct Piece {
    std::string text;
    Ink style = ink::kPlain;
  };
  using Line = std::vector<Piece>;

  size_t columns() const { return columns_; }
  const std::vector<Line>& lines() const { return lines_; }
  // All lines, each with its end; escape sequences only with `color`.
  std::string text(bool color) const;

  // One line, cut at the right edge. Trailing blanks are dropped.
  void line(const Line& pieces);
  void blank() { lines_.emplace_back(); }
  void rule();
  void heading(std::string_view title, std::string_view aside = "");
  // `label` in the left margin of `margin` columns, the text wrapped right of it. Nothing for empty text.
  void paragraph(std::string_view label, std::string_view text, size_t margin, Ink style = ink::kPlain);
  // The same for a list of short phrases, joined by " · ".
  void phrases(std::string_view label, const std::vector<std::string>& items, size_t margin, Ink style = ink::kPlain);
  // Indented by two; culprits are marked left of their row.
  void table(const Table& table);

 private:
  void labelled(std::string_view label, const std::vector<std::string>& lines, size_t margin, Ink style);

  size_t columns_;
  std::vector<Line> lines_;
};

}  // namespace stepscope
