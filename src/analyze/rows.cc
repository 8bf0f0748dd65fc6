#include "analyze/rows.h"

#include <algorithm>
#include <iterator>

namespace stepscope {

double Rows::wall_ms() const {
  double sum = 0;
  for (size_t i = 0; i < rows.size(); ++i) sum += static_cast<double>(rows[i]->wall_ms) * weights[i];
  return sum;
}

std::vector<int> Rows::seen() const {
  std::vector<int> out;
  for (const StepRow* row : rows) {
    const auto known = [&](const Cell& cell) { return std::binary_search(out.begin(), out.end(), cell.rank); };
    if (std::all_of(row->cells.begin(), row->cells.end(), known)) continue;
    std::vector<int> both = std::move(out), more;
    for (const Cell& cell : row->cells) more.push_back(cell.rank);
    out.clear();
    std::set_union(both.begin(), both.end(), more.begin(), more.end(), std::back_inserter(out));
  }
  return out;
}

Rows Rows::slice(size_t from, size_t to) const {
  Rows out;
  for (size_t i = from; i < std::min(to, rows.size()); ++i) out.add(*rows[i], weights[i]);
  return out;
}

Rows all_rows(const StepTable& table) {
  Rows out;
  for (const StepRow& row : table.sample()) out.add(row, static_cast<float>(table.stride()));
  for (const StepRow& row : table.recent()) out.add(row, 1);
  return out;
}

Rows newest_rows(const StepTable& table, size_t count) {
  Rows out;
  const auto& recent = table.recent();
  const size_t from = recent.size() > count ? recent.size() - count : 0;
  for (size_t i = from; i < recent.size(); ++i) out.add(recent[i], 1);
  return out;
}

Rows thinned(const Rows& rows, size_t count) {
  if (rows.size() <= count || count == 0) return rows;
  Rows out;
  for (size_t k = 1; k <= count; ++k) {
    const size_t begin = (k - 1) * rows.size() / count, end = k * rows.size() / count;
    float weight = 0;
    for (size_t i = begin; i < end; ++i) weight += rows.weights[i];
    out.add(*rows.rows[end - 1], weight);
  }
  return out;
}

Rows without(const Rows& rows, uint32_t tags) {
  Rows out;
  for (size_t i = 0; i < rows.size(); ++i)
    if ((rows.rows[i]->tags & tags) == 0) out.add(*rows.rows[i], rows.weights[i]);
  return out;
}

}  // namespace stepscope
