// A table of text cells that never grows beyond a width: columns have a priority, and the least important ones go
// first. Cells are plain text; a style per row is applied around the finished cells, so that colour takes no width.
#pragma once

#include <string>
#include <vector>

namespace stepscope {

struct TextColumn {
  std::string title;
  bool right = true;  // numbers stand right
  int priority = 0;   // 0 stays always; the highest number is left out first
  size_t least_width = 0;
};

class TextTable {
 public:
  explicit TextTable(std::vector<TextColumn> columns) : columns_(std::move(columns)) {}

  void add(std::vector<std::string> cells);  // made printable
  bool empty() const { return rows_.empty(); }

  // Lines: first the titles, then the rows; each at most `columns` wide, no trailing blanks. The first column is cut
  // when even the columns of priority 0 do not fit.
  std::vector<std::string> lines(size_t columns) const;

 private:
  std::vector<TextColumn> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace stepscope
