// LOAD_IMBALANCE: the ranks take turns at being late, and late is the one that got more work in this step.
//
//   lead(r, k)  own time of rank r in step k - mean over the ranks - what r usually leads by (its median over the steps:
//               a rank that is always late is a straggler's affair)
//   work(r, k)  tokens, or else samples, treated alike
//   loss(k)     the largest lead of the step, at most what the ranks waited in it on average: the time that the step would
//               be shorter with the same work dealt out evenly
//
// Said when the losses are worth a warning and lead goes with work (Pearson's correlation over all ranks and steps). Without
// a count of the work nothing is said: unevenness alone is the machine's as often as the data's.
#include <algorithm>
#include <cmath>
#include <vector>

#include "analyze/robust.h"
#include "analyze/straggler.h"
#include "analyze/whatif.h"
#include "base/text_format.h"
#include "diagnose/judged.h"

namespace stepscope {

namespace {

// One figure by step and rank, as the difference to the step's mean without what a rank usually differs by. NaN: unknown.
class Leads {
 public:
  template <class Figure>
  Leads(const Rows& rows, int ranks, Figure figure) : ranks_(static_cast<size_t>(ranks)), lead_(rows.size() * ranks_, std::nan("")) {
    for (size_t i = 0; i < rows.size(); ++i) {
      const std::vector<Cell>& cells = rows.rows[i]->cells;
      double sum = 0;
      size_t seen = 0;
      for (size_t r = 0; r < cells.size() && r < ranks_; ++r)
        if (cells[r].present) sum += lead_[i * ranks_ + r] = figure(cells[r]), ++seen;
      for (size_t r = 0; r < ranks_ && seen > 0; ++r) lead_[i * ranks_ + r] -= sum / static_cast<double>(seen);
    }
    for (size_t r = 0; r < ranks_; ++r) {
      std::vector<double> of_rank;
      for (size_t i = 0; i < rows.size(); ++i)
        if (!std::isnan(at(i, r))) of_rank.push_back(at(i, r));
      const double usual = of_rank.empty() ? 0 : median(std::move(of_rank));
      for (size_t i = 0; i < rows.size(); ++i) lead_[i * ranks_ + r] -= usual;
      usual_.push_back(usual);
    }
  }

  double at(size_t row, size_t rank) const { return lead_[row * ranks_ + rank]; }
  // The rank that leads in a row; ranks() when none is known.
  size_t first_of(size_t row) const {
    size_t first = ranks_;
    for (size_t r = 0; r < ranks_; ++r)
      if (!std::isnan(at(row, r)) && (first == ranks_ || at(row, r) > at(row, first))) first = r;
    return first;
  }
  size_t ranks() const { return ranks_; }
  const std::vector<double>& usual() const { return usual_; }

  // Pearson's correlation of two figures over all ranks and steps; 0 where one does not vary.
  double correlation(const Leads& other) const {
    double xx = 0, yy = 0, xy = 0;
    for (size_t i = 0; i < lead_.size(); ++i) {
      const double x = lead_[i], y = other.lead_[i];
      if (!std::isfinite(x) || !std::isfinite(y)) continue;
      xx += x * x, yy += y * y, xy += x * y;
    }
    return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 0;
  }

 private:
  size_t ranks_;
  std::vector<double> lead_, usual_;
};

double own_work_ms(const Cell& cell) {
  double ms = 0;
  for (size_t c = 0; c < kCategoryCount; ++c)
    if (is_comparable(static_cast<Category>(c))) ms += cell.ms[c];
  return ms;
}

double mean_wait_ms(const StepRow& row) {
  double sum = 0;
  for (const Cell& cell : row.cells) sum += cell.present ? cell.wait_ms : 0;
  const int present = row.present();
  return present > 0 ? sum / present : 0;
}

double loss_ms(const Leads& own, const Rows& rows, size_t i) {
  const size_t first = own.first_of(i);
  return first == own.ranks() ? 0 : std::clamp(own.at(i, first), 0.0, mean_wait_ms(*rows.rows[i]));
}

// Share of the steps in which the same rank leads, of the rank that leads most often.
double most_often_first(const Leads& own, size_t rows) {
  std::vector<size_t> count(own.ranks() + 1, 0);
  for (size_t i = 0; i < rows; ++i) ++count[own.first_of(i)];
  return static_cast<double>(*std::max_element(count.begin(), count.end() - 1)) / static_cast<double>(rows);
}

}  // namespace

void judge_imbalance(const Judged& j, std::vector<Finding>& out) {
  if (j.ranks < 2 || j.baseline.size() < 2 * static_cast<size_t>(j.limits->min_steps)) return;
  const double wall_ms = j.baseline.wall_ms();
  if (wall_ms <= 0) return;
  const Leads own(j.baseline, j.ranks, own_work_ms);
  double lost_ms = 0;
  for (size_t i = 0; i < j.baseline.size(); ++i) lost_ms += loss_ms(own, j.baseline, i) * j.baseline.weights[i];
  const double share = lost_ms / wall_ms;
  if (j.severity(share) == Severity::kInfo) return;
  const double by_tokens = own.correlation(Leads(j.baseline, j.ranks, [](const Cell& cell) { return cell.tokens; }));
  const double by_samples = own.correlation(Leads(j.baseline, j.ranks, [](const Cell& cell) { return cell.samples; }));
  const double correlation = std::max(by_tokens, by_samples);
  if (correlation < j.limits->imbalance_min_correlation) return;

  Finding f = Finding::of(FindingKind::kLoadImbalance);
  f.cause = Cause::kMoreWork;
  f.pattern = "rotating";
  f.job_scope = true;
  f.severity = j.severity(share);
  if (j.on_device()) f.clock = "gpu";
  f.cost_share = share;
  f.cost_seconds = j.seconds(share);
  f.saves_share = saved_share(j.baseline, [&](size_t i, int r) {
    LedgerMs cut{};
    const Cell& cell = j.baseline.rows[i]->cells[static_cast<size_t>(r)];
    const double lead = own.at(i, static_cast<size_t>(r)), all_ms = own_work_ms(cell);
    if (!(lead > 0) || !(all_ms > 0)) return cut;
    for (Category c : {Category::kForward, Category::kBackward, Category::kOptimizer})
      cut[index(c)] = static_cast<float>(std::min(lead / all_ms, 1.0)) * cell.ms[index(c)];
    return cut;
  });
  f.coverage = j.coverage;
  f.confidence = std::min(0.99, correlation * j.coverage);
  const double mean_ms = lost_ms / static_cast<double>(j.baseline.size());
  // Before the baseline (warm-up) a step is uneven as here, what ranks usually differ by left out.
  const auto figure = [&](const StepRow& row) {
    double sum = 0, most = 0;
    int seen = 0;
    for (const Cell& cell : row.cells)
      if (cell.present) sum += own_work_ms(cell), ++seen;
    for (size_t r = 0; r < row.cells.size() && r < own.ranks(); ++r)
      if (row.cells[r].present) most = std::max(most, own_work_ms(row.cells[r]) - sum / seen - own.usual()[r]);
    return std::min(most, mean_wait_ms(row));
  };
  f.first_step = j.onset(j.limits->onset_share * mean_ms, figure);
  f.last_step = j.last_step();
  f.title = formatted("Ranks take turns at being late, the one with more work in the step: {} of the time", text_share(share));
  f.action = "give every rank about the same work per step: sort or pack by length, fill batches by tokens and not by samples";
  f.evidence = {{"lost_ms_per_step", {}, mean_ms, {}, ""},
                {"correlation_with_work", {}, correlation, {}, by_tokens >= by_samples ? "tokens" : "samples"},
                {"most_often_last_share", {}, most_often_first(own, j.baseline.size()), {}, ""}};
  out.push_back(std::move(f));
}

}  // namespace stepscope
