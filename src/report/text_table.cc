#include "report/text_table.h"

#include <algorithm>
#include <numeric>

#include "report/text_layout.h"

namespace stepscope {
namespace {

constexpr size_t kGap = 2;

std::string without_trailing_blanks(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

std::string cell_of(const Row& row, size_t column) {
  return column < row.cells.size() ? printable(row.cells[column]) : std::string();
}

// Widths of the columns, and which of them are shown.
struct Layout {
  std::vector<size_t> widths, shown;

  Layout(const Table& table, size_t columns) : shown(table.columns.size()) {
    for (size_t c = 0; c < table.columns.size(); ++c) {
      const Column& column = table.columns[c];
      size_t width = std::max({column.least_width, display_width(column.title), display_width(column.unit)});
      for (const Row& row : table.rows) width = std::max(width, display_width(cell_of(row, c)));
      widths.push_back(width);
    }
    std::iota(shown.begin(), shown.end(), size_t{0});
    leave_out(table, columns);
    narrow(columns);
  }

  size_t total() const {
    size_t sum = 0;
    for (const size_t c : shown) sum += widths[c] + kGap;
    return sum - std::min(sum, kGap);
  }

  void leave_out(const Table& table, size_t columns) {
    while (total() > columns) {
      const auto least = std::max_element(shown.begin(), shown.end(), [&](size_t a, size_t b) {
        return table.columns[a].priority < table.columns[b].priority;
      });
      if (least == shown.end() || table.columns[*least].priority == 0) return;
      shown.erase(least);
    }
  }

  // What still does not fit is taken from the widest column first.
  void narrow(size_t columns) {
    while (total() > columns && !shown.empty()) {
      const size_t widest =
          *std::max_element(shown.begin(), shown.end(), [&](size_t a, size_t b) { return widths[a] < widths[b]; });
      if (widths[widest] <= 1)
        shown.pop_back();
      else
        widths[widest] -= std::min(widths[widest] - 1, total() - columns);
    }
  }

  template <class CellOf>
  std::string line(const Table& table, CellOf text_of) const {
    std::string line;
    for (size_t i = 0; i < shown.size(); ++i) {
      const size_t c = shown[i];
      if (i > 0) line.append(kGap, ' ');
      line += table.columns[c].right ? pad_left(text_of(c), widths[c]) : pad_right(text_of(c), widths[c]);
    }
    return without_trailing_blanks(std::move(line));
  }
};

}  // namespace

TextTableLines text_table(const Table& table, size_t columns) {
  const Layout layout(table, columns);
  TextTableLines out;
  const auto any = [&](auto text_of) {
    return std::any_of(layout.shown.begin(), layout.shown.end(), [&](size_t c) { return !text_of(c).empty(); });
  };
  const auto title = [&](size_t c) -> const std::string& { return table.columns[c].title; };
  const auto unit = [&](size_t c) -> const std::string& { return table.columns[c].unit; };
  if (any(title)) out.head.push_back(layout.line(table, title));
  if (any(unit)) out.head.push_back(layout.line(table, unit));
  for (const Row& row : table.rows) out.rows.push_back(layout.line(table, [&](size_t c) { return cell_of(row, c); }));
  return out;
}

}  // namespace stepscope
