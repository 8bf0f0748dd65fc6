#include "tui/grid.h"

#include <algorithm>

#include "report/text_layout.h"

namespace stepscope::tui {

Grid::Grid(int columns, int rows)
    : columns_(std::max(columns, 0)),
      rows_(std::max(rows, 0)),
      cells_(static_cast<size_t>(columns_) * static_cast<size_t>(rows_)) {}

int Grid::put(int x, int y, std::string_view text, const Ink& ink) {
  if (y < 0 || y >= rows_ || x < 0) return x;
  for (size_t pos = 0; pos < text.size();) {
    const Glyph glyph = next_glyph(text, pos);
    const int width = static_cast<int>(glyph.columns);
    if (width == 0) {
      if (x > 0 && x <= columns_) cells_[index(x - 1, y)].glyph += glyph.bytes;
      continue;
    }
    if (x + width > columns_) break;
    cells_[index(x, y)] = {std::string(glyph.bytes), ink};
    if (width == 2) cells_[index(x + 1, y)] = {"", ink};
    x += width;
  }
  return x;
}

int Grid::put(int x, int y, const TextPage::Line& line) {
  for (const TextPage::Piece& piece : line) x = put(x, y, piece.text, piece.style);
  return x;
}

void Grid::reverse(int x, int y, int columns) {
  if (y < 0 || y >= rows_) return;
  for (int at = std::max(x, 0); at < std::min(x + columns, columns_); ++at) cells_[index(at, y)].ink.reverse = true;
}

std::string Grid::text() const {
  std::string out;
  for (int y = 0; y < rows_; ++y) {
    std::string row;
    for (int x = 0; x < columns_; ++x) row += at(x, y).glyph;
    row.erase(row.find_last_not_of(' ') + 1);
    out += row + "\n";
  }
  return out;
}

}  // namespace stepscope::tui
