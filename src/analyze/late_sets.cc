#include "analyze/late_sets.h"

#include <algorithm>
#include <map>
#include <utility>

#include "analyze/robust.h"
#include "analyze/straggler.h"

namespace stepscope {
namespace {

constexpr size_t kFewestRanks = 4, kFewestRows = 4;  // of a half
constexpr double kApart = 0.5;                       // of what the middles of the parts differ by

double middle(const std::vector<std::pair<double, int>>& sorted, size_t from, size_t to) {
  return 0.5 * (sorted[from + (to - from - 1) / 2].first + sorted[from + (to - from) / 2].first);
}

// The upper part, ascending; empty where there are no two parts, or none that can be called late.
std::vector<int> upper_part(const Rows& block, size_t first, size_t every) {
  std::map<int, std::vector<double>> by_rank;
  for (size_t i = first; i < block.size(); i += every)
    for (const Cell& cell : block.rows[i]->cells) by_rank[cell.rank].push_back(comparable_ms(cell));
  std::vector<std::pair<double, int>> sorted;
  for (auto& [rank, list] : by_rank) {
    if (list.size() < kFewestRows) return {};
    sorted.emplace_back(median(std::move(list)), rank);
  }
  if (sorted.size() < kFewestRanks) return {};
  std::sort(sorted.begin(), sorted.end());
  size_t at = 1;  // where the upper part begins
  for (size_t i = 1; i < sorted.size(); ++i)
    if (sorted[i].first - sorted[i - 1].first > sorted[at].first - sorted[at - 1].first) at = i;
  const size_t upper = sorted.size() - at;
  if (upper < 2 || 2 * upper > sorted.size()) return {};
  const double gap = sorted[at].first - sorted[at - 1].first;
  if (gap < kApart * (middle(sorted, at, sorted.size()) - middle(sorted, 0, at))) return {};
  std::vector<int> ranks;
  for (size_t i = at; i < sorted.size(); ++i) ranks.push_back(sorted[i].second);
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

}  // namespace

std::vector<std::vector<int>> late_sets(const Rows& rows, size_t block_rows) {
  std::map<std::vector<int>, size_t> blocks;
  for (size_t from = 0; from < rows.size();) {
    const size_t to = rows.size() - from < 2 * block_rows ? rows.size() : from + block_rows;
    const Rows block = rows.slice(from, to);
    const std::vector<int> even = upper_part(block, 0, 2);
    if (!even.empty() && even == upper_part(block, 1, 2)) ++blocks[even];
    from = to;
  }
  std::vector<std::pair<size_t, std::vector<int>>> often;
  for (const auto& [ranks, count] : blocks) often.emplace_back(count, ranks);
  std::stable_sort(often.begin(), often.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::vector<int>> out;
  for (auto& [count, ranks] : often) out.push_back(std::move(ranks));
  return out;
}

}  // namespace stepscope
