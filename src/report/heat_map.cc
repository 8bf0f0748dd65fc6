#include "report/heat_map.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

namespace stepscope {
namespace {

signed char heat_level(double ratio) {
  signed char level = 0;
  for (const double bound : kHeatBounds) level = static_cast<signed char>(level + (ratio > bound ? 1 : 0));
  return level;
}

}  // namespace

double lower_median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::vector<size_t> heat_rows(const Snapshot& s, size_t limit) {
  size_t count = 0;
  for (const StepPoint& p : s.recent) count = std::max(count, p.rank_ms.size());
  std::vector<size_t> rows(std::min(count, s.ranks.size()));
  std::iota(rows.begin(), rows.end(), size_t{0});
  if (rows.size() <= limit) return rows;
  std::vector<double> sums(rows.size(), 0);
  for (const StepPoint& p : s.recent)
    for (size_t r = 0; r < std::min(p.rank_ms.size(), sums.size()); ++r)
      sums[r] += std::isfinite(p.rank_ms[r]) ? static_cast<double>(p.rank_ms[r]) : 0;
  std::stable_sort(rows.begin(), rows.end(), [&](size_t a, size_t b) { return sums[a] > sums[b]; });
  rows.resize(limit);
  std::sort(rows.begin(), rows.end());
  return rows;
}

HeatMap heat_map(const Snapshot& s, const std::vector<size_t>& rows) {
  HeatMap out;
  std::vector<double> measures;  // of each step: a rank must not become the measure because the steps vary
  for (const StepPoint& p : s.recent) {
    std::vector<double> own;
    std::copy_if(p.rank_ms.begin(), p.rank_ms.end(), std::back_inserter(own),
                 [](float ms) { return std::isfinite(ms); });
    if (!own.empty()) measures.push_back(lower_median_of(std::move(own)));
  }
  const double median = lower_median_of(std::move(measures));
  if (!(median > 0)) return out;
  for (const size_t at : rows) {
    HeatRow row{.rank = s.ranks[at].rank, .levels = {}};
    for (const StepPoint& p : s.recent) {
      const bool seen = at < p.rank_ms.size() && std::isfinite(p.rank_ms[at]);
      row.levels.push_back(seen ? heat_level(static_cast<double>(p.rank_ms[at]) / median)
                                : static_cast<signed char>(-1));
    }
    out.rows.push_back(std::move(row));
  }
  return out;
}

}  // namespace stepscope
