#include "analyze/straggler.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "analyze/others.h"
#include "analyze/robust.h"

namespace stepscope {

namespace {

constexpr double kMedianNoise = 1.2533;

// Median of `values` and as many zeros.
double median_with_zeros(std::vector<double> values, size_t zeros) {
  if (values.size() + zeros == 0) return 0;
  values.resize(values.size() + zeros, 0);
  return median(std::move(values));
}

// For each rank that somebody waited for: the median over the other ranks seen of their mean wait for it, per row.
std::map<int, double> victims_wait_ms(const Rows& block, size_t seen) {
  std::vector<Blame> all;
  for (const StepRow* row : block.rows) all.insert(all.end(), row->caused.begin(), row->caused.end());
  settle(all);
  std::map<int, std::vector<double>> waits;
  for (const Blame& b : all) waits[b.causer].push_back(b.ms / static_cast<double>(block.size()));
  std::map<int, double> out;
  for (auto& [causer, list] : waits) {
    const size_t others = seen - 1;
    const size_t zeros = others > list.size() ? others - list.size() : 0;
    // Fewer than half waited: no look at them is needed.
    out[causer] = list.size() < zeros ? 0 : median_with_zeros(std::move(list), zeros);
  }
  return out;
}

// A figure of each rank that was seen and the median of the others, row by row; by participant: the rank's place among
// `ranks`.
class Compared {
 public:
  template <class Figure>
  Compared(const Rows& block, const std::vector<int>& ranks, Figure figure)
      : own_(ranks.size()), others_(ranks.size()) {
    Others others;
    for (const StepRow* row : block.rows) {
      others.look(*row, figure);
      for (const Cell& cell : row->cells) {
        const double own = figure(cell), median = others.median_without(own);
        if (std::isnan(median)) continue;
        const auto participant =
            static_cast<size_t>(std::lower_bound(ranks.begin(), ranks.end(), cell.rank) - ranks.begin());
        own_[participant].push_back(own);
        others_[participant].push_back(median);
      }
    }
  }

  const std::vector<double>& own(size_t participant) const { return own_[participant]; }
  const std::vector<double>& others(size_t participant) const { return others_[participant]; }
  std::vector<double> difference(size_t participant) const {
    std::vector<double> d(own_[participant].size());
    for (size_t i = 0; i < d.size(); ++i) d[i] = own_[participant][i] - others_[participant][i];
    return d;
  }

 private:
  std::vector<std::vector<double>> own_, others_;  // by participant; rows in which it has somebody to be compared with
};

bool occurs(const Rows& block, size_t category) {
  return std::any_of(block.rows.begin(), block.rows.end(), [&](const StepRow* row) {
    return std::any_of(row->cells.begin(), row->cells.end(), [&](const Cell& cell) { return cell.ms[category] != 0; });
  });
}

std::vector<RankExcess> compare(const Rows& block, const std::vector<int>& ranks) {
  std::vector<RankExcess> all(ranks.size());
  const Compared total(block, ranks, comparable_ms);
  for (size_t r = 0; r < all.size(); ++r) {
    RankExcess& e = all[r];
    e.rank = ranks[r];
    const std::vector<double> d = total.difference(r);
    if (d.empty()) continue;
    e.excess_ms = median(d);
    e.sigma_ms = mad_sigma(d);
    const double noise = kMedianNoise * e.sigma_ms / std::sqrt(static_cast<double>(d.size()));
    e.z = e.excess_ms / std::max(noise, 1e-3);
    e.positive = static_cast<double>(std::count_if(d.begin(), d.end(), [](double x) { return x > 0; })) /
                 static_cast<double>(d.size());
  }
  for (size_t c = 0; c < kCategoryCount; ++c) {
    if (!is_comparable(static_cast<Category>(c)) || !occurs(block, c)) continue;
    const Compared category(block, ranks, [c](const Cell& cell) { return cell.ms[c]; });
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
    case Category::kUnresolved:
    case Category::kStartup:
    case Category::kTeardown:
    case Category::kHang: return false;
    default: return true;
  }
}

double compute_ms(const LedgerMs& ms) {
  double sum = 0;
  for (const Category c : kLaunchPhases) sum += ms[index(c)];
  return sum;
}

float comparable_ms(const Cell& cell) {
  float sum = 0;
  for (size_t c = 0; c < kCategoryCount; ++c)
    if (is_comparable(static_cast<Category>(c))) sum += cell.ms[c];
  return sum;
}

std::vector<RankExcess> rank_excess(const Rows& block, const StragglerLimits& limits) {
  const std::vector<int> ranks = block.seen();
  if (ranks.size() < 2 || block.size() < limits.min_rows) return {};
  double waiting_ms = 0;
  std::map<int, double> caused;
  std::vector<double> wall;
  for (const StepRow* row : block.rows) {
    wall.push_back(row->wall_ms);
    for (const Cell& cell : row->cells) {
      if (cell.caused_ms == 0) continue;
      caused[cell.rank] += cell.caused_ms;
      waiting_ms += cell.caused_ms;
    }
  }
  const double wall_ms = median(wall);
  const std::map<int, double> waits = victims_wait_ms(block, ranks.size());
  std::vector<RankExcess> all = compare(block, ranks);
  const auto of = [](const std::map<int, double>& by_rank, int rank) {
    const auto found = by_rank.find(rank);
    return found == by_rank.end() ? 0.0 : found->second;
  };
  for (RankExcess& e : all) {
    e.blame = waiting_ms > 0 ? of(caused, e.rank) / waiting_ms : 0;
    e.victim_wait_ms = of(waits, e.rank);
    // The spread among the others last: it costs a look at each of them.
    e.late = e.z >= limits.min_z && e.positive >= limits.min_positive && e.blame >= limits.min_blame &&
             e.excess_ms >= limits.min_excess_share * wall_ms &&
             e.excess_ms > limits.min_spreads * spread_among_others(all, e.rank);
  }
  return all;
}

}  // namespace stepscope
