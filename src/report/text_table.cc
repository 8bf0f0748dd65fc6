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

}  // namespace

void TextTable::add(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = printable(cell);
  rows_.push_back(std::move(cells));
}

std::vector<std::string> TextTable::lines(size_t columns) const {
  std::vector<size_t> widths;
  for (size_t c = 0; c < columns_.size(); ++c) {
    size_t width = std::max(columns_[c].least_width, display_width(columns_[c].title));
    for (const auto& row : rows_) width = std::max(width, c < row.size() ? display_width(row[c]) : 0);
    widths.push_back(width);
  }
  std::vector<size_t> shown(columns_.size());
  std::iota(shown.begin(), shown.end(), size_t{0});
  const auto total = [&] {
    size_t sum = 0;
    for (size_t c : shown) sum += widths[c] + kGap;
    return sum - std::min(sum, kGap);
  };
  while (total() > columns) {
    const auto worst = std::max_element(
        shown.begin(), shown.end(), [&](size_t a, size_t b) { return columns_[a].priority < columns_[b].priority; });
    if (worst == shown.end() || columns_[*worst].priority == 0) break;
    shown.erase(worst);
  }
  // What still does not fit is taken from the widest column first.
  while (total() > columns && !shown.empty()) {
    const size_t widest =
        *std::max_element(shown.begin(), shown.end(), [&](size_t a, size_t b) { return widths[a] < widths[b]; });
    if (widths[widest] <= 1) {
      shown.pop_back();
      continue;
    }
    widths[widest] -= std::min(widths[widest] - 1, total() - columns);
  }

  const auto line_of = [&](const auto& cell_of) {
    std::string line;
    for (size_t i = 0; i < shown.size(); ++i) {
      const size_t c = shown[i];
      if (i > 0) line.append(kGap, ' ');
      line += columns_[c].right ? pad_left(cell_of(c), widths[c]) : pad_right(cell_of(c), widths[c]);
    }
    return without_trailing_blanks(std::move(line));
  };
  std::vector<std::string> out;
  out.push_back(line_of([&](size_t c) { return columns_[c].title; }));
  for (const auto& row : rows_) {
    out.push_back(line_of([&](size_t c) { return c < row.size() ? row[c] : std::string(); }));
  }
  return out;
}

}  // namespace stepscope
