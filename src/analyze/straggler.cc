#include "analyze/straggler.h"

#include <algorithm>
#include <cmath>

#include "analyze/others.h"
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

// A figure of each rank and the median of the others, row by row.
class Compared {
 public:
  template <class Figure>
  Compared(const Rows& block, Figure figure) : own_(static_cast<size_t>(block.ranks())), others_(own_.size()) {
    Others others;
    for (const StepRow* row : block.rows) {
      others.look(*row, figure);
      for (size_t r = 0; r < row->cells.size() && r < own_.size(); ++r) {
        if (!row->cells[r].present) continue;
        const double own = figure(row->cells[r]), median = others.median_without(own);
        if (std::isnan(median)) continue;
        own_[r].push_back(own);
        others_[r].push_back(median);
      }
    }
  }

  const std::vector<double>& own(size_t rank) const { return own_[rank]; }
  const std::vector<double>& others(size_t rank) const { return others_[rank]; }
  std::vector<double> difference(size_t rank) const {
    std::vector<double> d(own_[rank].size());
    for (size_t i = 0; i < d.size(); ++i) d[i] = own_[rank][i] - others_[rank][i];
    return d;
  }

 private:
  std::vector<std::vector<double>> own_, others_;  // by rank; rows in which it has somebody to be compared with
};

bool occurs(const Rows& block, size_t category) {
  return std::any_of(block.rows.begin(), block.rows.end(), [&](const StepRow* row) {
    return std::any_of(row->cells.begin(), row->cells.end(), [&](const Cell& cell) { return cell.present && cell.ms[category] != 0; });
  });
}

std::vector<RankExcess> compare(const Rows& block) {
  std::vector<RankExcess> all(static_cast<size_t>(block.ranks()));
  const Compared total(block, comparable_ms);
  for (size_t r = 0; r < all.size(); ++r) {
    RankExcess& e = all[r];
    e.rank = static_cast<int>(r);
    const std::vector<double> d = total.difference(r);
    if (d.empty()) continue;
    e.excess_ms = median(d);
    e.sigma_ms = mad_sigma(d);
    const double noise = kMedianNoise * e.sigma_ms / std::sqrt(static_cast<double>(d.size()));
    e.z = e.excess_ms / std::max(noise, 1e-3);
    e.positive = static_cast<double>(std::count_if(d.begin(), d.end(), [](double x) { return x > 0; })) / static_cast<double>(d.size());
  }
  for (size_t c = 0; c < kCategoryCount; ++c) {
    if (!is_comparable(static_cast<Category>(c)) || !occurs(block, c)) continue;
    const Compared category(block, [c](const Cell& cell) { return cell.ms[c]; });
    for (size_t r = 0; r < all.size(); ++r) {
      if (category.own(r).empty()) continue;
      all[r].category_ms[c] = static_cast<float>(median(category.difference(r)));
      all[r].own_ms[c] = static_cast<float>(median(category.own(r)));
      all[r].others_ms[c] = static_cast<float>(median(category.others(r)));
    }
  }
  return all;
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
  const int ranks = block.ranks();
  if (ranks < 2 || block.size() < limits.min_rows) return {};
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
  std::vector<RankExcess> all = compare(block);
  for (RankExcess& e : all) {
    e.blame = waiting_ms > 0 ? caused[e.rank] / waiting_ms : 0;
    e.victim_wait_ms = median_wait_for(block, e.rank);
    e.late = e.z >= limits.min_z && e.positive >= limits.min_positive && e.blame >= limits.min_blame &&
             e.excess_ms >= limits.min_excess_share * wall_ms &&
             e.excess_ms > limits.min_spreads * spread_among_others(all, e.rank);
  }
  return all;
}

}  // namespace stepscope
