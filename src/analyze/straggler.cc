#include "analyze/straggler.h"

#include <cmath>

#include "analyze/robust.h"

namespace stepscope {

namespace {

constexpr double kMedianNoise = 1.2533;

float comparable_ms(const Cell& cell) {
  float sum = 0;
  for (size_t c = 0; c < kCategoryCount; ++c)
    if (is_comparable(static_cast<Category>(c))) sum += cell.ms[c];
  return sum;
}

double median_wait_for(const Rows& block, int rank) {
  const size_t n = static_cast<size_t>(block.ranks());
  std::vector<double> wait(n, 0);
  for (const StepRow* row : block.rows) {
    if (row->caused.empty() || row->cells.size() != n) continue;
    for (size_t j = 0; j < n; ++j) wait[j] += row->caused[static_cast<size_t>(rank) * n + j];
  }
  std::vector<double> victims;
  for (size_t j = 0; j < n; ++j)
    if (static_cast<int>(j) != rank) victims.push_back(wait[j] / static_cast<double>(block.size()));
  return victims.empty() ? 0 : median(victims);
}

RankExcess excess_of(const Rows& block, int rank) {
  RankExcess out;
  out.rank = rank;
  std::vector<double> total;
  std::array<std::vector<double>, kCategoryCount> by_category, own, others;
  for (const StepRow* row : block.rows) {
    if (static_cast<size_t>(rank) >= row->cells.size() || !row->cells[rank].present) continue;
    const Cell& cell = row->cells[rank];
    const double other_total = others_median(*row, rank, comparable_ms);
    if (std::isnan(other_total)) continue;
    total.push_back(comparable_ms(cell) - other_total);
    for (size_t c = 0; c < kCategoryCount; ++c) {
      if (!is_comparable(static_cast<Category>(c))) continue;
      const double other_ms = others_median(*row, rank, [c](const Cell& other) { return other.ms[c]; });
      by_category[c].push_back(cell.ms[c] - other_ms);
      own[c].push_back(cell.ms[c]);
      others[c].push_back(other_ms);
    }
  }
  if (total.empty()) return out;
  out.excess_ms = median(total);
  out.sigma_ms = mad_sigma(total);
  const double noise = kMedianNoise * out.sigma_ms / std::sqrt(static_cast<double>(total.size()));
  out.z = out.excess_ms / std::max(noise, 1e-3);
  size_t positive = 0;
  for (double d : total) positive += d > 0;
  out.positive = static_cast<double>(positive) / static_cast<double>(total.size());
  for (size_t c = 0; c < kCategoryCount; ++c) {
    if (by_category[c].empty()) continue;
    out.category_ms[c] = static_cast<float>(median(by_category[c]));
    out.own_ms[c] = static_cast<float>(median(own[c]));
    out.others_ms[c] = static_cast<float>(median(others[c]));
  }
  return out;
}

// Spread among the other ranks' own medians; 0 with fewer than three others.
double spread_among_others(const std::vector<RankExcess>& all, int rank) {
  std::vector<double> values;
  for (const RankExcess& e : all)
    if (e.rank != rank) values.push_back(e.excess_ms);
  return values.size() < 3 ? 0 : mad_sigma(values);
}

}  // namespace

bool is_comparable(Category category) {
  switch (category) {
    case Category::kCommTransfer:
    case Category::kStragglerWait:
    case Category::kStartup:
    case Category::kTeardown:
    case Category::kHang: return false;
    default: return true;
  }
}

std::vector<RankExcess> rank_excess(const Rows& block, const StragglerLimits& limits) {
  std::vector<RankExcess> all;
  const int ranks = block.ranks();
  if (ranks < 2 || block.size() < limits.min_rows) return all;
  double waiting_ms = 0;
  std::vector<double> caused(ranks, 0), wall;
  for (const StepRow* row : block.rows) {
    wall.push_back(row->wall_ms);
    for (size_t r = 0; r < row->cells.size() && r < caused.size(); ++r) {
      caused[r] += row->cells[r].caused_ms;
      waiting_ms += row->cells[r].caused_ms;
    }
  }
  const double wall_ms = median(wall);
  for (int r = 0; r < ranks; ++r) all.push_back(excess_of(block, r));
  for (RankExcess& e : all) {
    e.blame = waiting_ms > 0 ? caused[e.rank] / waiting_ms : 0;
    e.victim_wait_ms = median_wait_for(block, e.rank);
    e.late = e.z >= limits.min_z && e.positive >= limits.min_positive && e.blame >= limits.min_blame &&
             e.excess_ms >= limits.min_excess_share * wall_ms && e.excess_ms > 3 * spread_among_others(all, e.rank);
  }
  return all;
}

}  // namespace stepscope
