// A table as plain values: columns with units and priority, rows of finished cells. The page model holds them, and so
// do the texts of compare, hang and whatif; who draws one (text_table.h, summary_html.cc) decides only about room and
// ink.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace stepscope {

struct Column {
  std::string title;
  std::string unit;        // of the figures below it, where the cells do not carry their own: "ms"
  bool right = true;       // figures stand right, words left
  int priority = 0;        // 0 stays always; where there is no room the highest number goes first
  size_t least_width = 0;  // of a text column, so that the tables of one page stand below each other
};

enum class RowMark : unsigned char { kNone, kStrong, kCulprit };

struct Row {
  std::vector<std::string> cells;  // as many as columns; fewer: the rest is empty
  RowMark mark = RowMark::kNone;
};

struct Table {
  std::vector<Column> columns;
  std::vector<Row> rows;

  void add(std::vector<std::string> cells, RowMark mark = RowMark::kNone) { rows.push_back({std::move(cells), mark}); }
};

}  // namespace stepscope
