#include "analyze/category_shares.h"

#include <map>

#include "analyze/robust.h"

namespace stepscope {

CategoryShares category_shares(const Rows& rows) {
  struct Sums {
    std::array<double, kCategoryCount> ms{};
    double wall_ms = 0;
  };
  std::map<int, Sums> by_rank;
  for (size_t i = 0; i < rows.size(); ++i)
    for (const Cell& cell : rows.rows[i]->cells) {
      Sums& sums = by_rank[cell.rank];
      for (size_t c = 0; c < kCategoryCount; ++c) sums.ms[c] += static_cast<double>(cell.ms[c]) * rows.weights[i];
      sums.wall_ms += static_cast<double>(cell.wall_ms) * rows.weights[i];
    }
  CategoryShares out;
  for (size_t c = 0; c < kCategoryCount; ++c) {
    std::vector<double> shares;
    for (const auto& [rank, sums] : by_rank)
      if (sums.wall_ms > 0) shares.push_back(sums.ms[c] / sums.wall_ms);
    if (shares.empty()) continue;
    out.mean[c] = mean(shares);
    out.usual[c] = lower_median(std::move(shares));
  }
  return out;
}

}  // namespace stepscope
