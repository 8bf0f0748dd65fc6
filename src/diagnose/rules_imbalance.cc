// LOAD_IMBALANCE: the ranks take turns at being late, and late is the one that got more work in this step.
//
//   lead(r, k)  own time of rank r in step k - mean over the ranks - what r usually leads by (its median over the
//               steps: a rank that is always late is a straggler's affair)
//   work(r, k)  tokens, elements of the model's input or samples, whichever tells most, treated alike
//   loss(k)     the largest lead of the step, at most what the ranks waited in it on average: the time that the step
//               would be shorter with the same work dealt out evenly
//
// Said when the losses are worth a warning and lead goes with work (Pearson's correlation over all ranks and steps).
// Without a count of the work nothing is said: unevenness alone is the machine's as often as the data's.
#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "analyze/batch_size.h"
#include "analyze/robust.h"
#include "analyze/straggler.h"
#include "analyze/whatif.h"
#include "base/text_format.h"
#include "diagnose/rule.h"

namespace stepscope {

namespace {

// One figure by step and rank, as the difference to the step's mean without what a rank usually differs by.
class Leads {
 public:
  template <class Figure>
  Leads(const Rows& rows, Figure figure) {
    std::map<int, std::vector<double>> of_rank;
    for (const StepRow* row : rows.rows) {
      std::vector<double>& leads = lead_.emplace_back();
      double sum = 0;
      for (const Cell& cell : row->cells) sum += leads.emplace_back(figure(cell));
      for (double& lead : leads) lead -= sum / static_cast<double>(leads.size());
      for (size_t at = 0; at < leads.size(); ++at) of_rank[row->cells[at].rank].push_back(leads[at]);
    }
    for (auto& [rank, leads] : of_rank) usual_[rank] = median(std::move(leads));
    for (size_t i = 0; i < rows.size(); ++i)
      for (size_t at = 0; at < lead_[i].size(); ++at) lead_[i][at] -= usual(rows.rows[i]->cells[at].rank);
  }

  double at(size_t row, size_t cell) const { return lead_[row][cell]; }
  // The cell that leads in a row.
  size_t first_of(size_t row) const {
    return static_cast<size_t>(std::max_element(lead_[row].begin(), lead_[row].end()) - lead_[row].begin());
  }
  double usual(int rank) const {
    const auto found = usual_.find(rank);
    return found == usual_.end() ? 0 : found->second;
  }

  // Pearson's correlation of two figures over all ranks and steps; 0 where one does not vary.
  double correlation(const Leads& other) const {
    double xx = 0, yy = 0, xy = 0;
    for (size_t i = 0; i < lead_.size(); ++i)
      for (size_t at = 0; at < lead_[i].size(); ++at) {
        const double x = lead_[i][at], y = other.lead_[i][at];
        if (!std::isfinite(x) || !std::isfinite(y)) continue;
        xx += x * x, yy += y * y, xy += x * y;
      }
    return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 0;
  }

 private:
  std::vector<std::vector<double>> lead_;  // by row, by cell of the row
  std::map<int, double> usual_;
};

double mean_wait_ms(const StepRow& row) {
  double sum = 0;
  for (const Cell& cell : row.cells) sum += cell.wait_ms;
  return row.cells.empty() ? 0 : sum / static_cast<double>(row.cells.size());
}

double loss_ms(const Leads& own, const Rows& rows, size_t i) {
  return rows.rows[i]->cells.empty() ? 0 : std::clamp(own.at(i, own.first_of(i)), 0.0, mean_wait_ms(*rows.rows[i]));
}

// Share of the steps in which the same rank leads, of the rank that leads most often.
double most_often_first(const Leads& own, const Rows& rows) {
  std::map<int, size_t> count;
  size_t most = 0;
  for (size_t i = 0; i < rows.size(); ++i)
    if (!rows.rows[i]->cells.empty()) most = std::max(most, ++count[rows.rows[i]->cells[own.first_of(i)].rank]);
  return static_cast<double>(most) / static_cast<double>(rows.size());
}

}  // namespace

void judge_imbalance(const RuleInput& in, std::vector<Finding>& out) {
  if (in.seen.size() < 2 || in.baseline.size() < 2 * static_cast<size_t>(in.limits->min_steps)) return;
  const double wall_ms = in.baseline.wall_ms();
  if (wall_ms <= 0) return;
  const Leads own(in.baseline, comparable_ms);
  double lost_ms = 0;
  for (size_t i = 0; i < in.baseline.size(); ++i) lost_ms += loss_ms(own, in.baseline, i) * in.baseline.weights[i];
  const double share = lost_ms / wall_ms;
  double behind_ms = 0, waited_ms = 0, unsure_ms = 0;
  for (size_t i = 0; i < in.baseline.size(); ++i) {
    const StepRow& row = *in.baseline.rows[i];
    behind_ms += RuleInput::of_row(row, [](const Cell& cell) { return cell.ms[index(Category::kUnresolved)]; }) *
                 in.baseline.weights[i];
    for (const Cell& cell : row.cells)
      waited_ms += cell.caused_ms * in.baseline.weights[i], unsure_ms += cell.caused_unsure_ms * in.baseline.weights[i];
  }
  // Ranks that were not seen may have been last in most steps.
  const bool hides = 2 * unsure_ms > waited_ms && behind_ms >= lost_ms;
  if (in.severity(share) == Severity::kInfo) return;
  double correlation = 0;
  const char* counted_in = "";
  for (const BatchSize& batch : kBatchSizes) {
    const double by = own.correlation(Leads(in.baseline, [&](const Cell& cell) { return cell.*batch.size; }));
    if (by > correlation) correlation = by, counted_in = batch.units;
  }
  if (correlation < in.limits->imbalance_min_correlation) return;

  FindingBuilder f = in.finding(FindingKind::kLoadImbalance);
  f.caused_by(Cause::kMoreWork).pattern("rotating").about_job().on_steps_clock().costs(share);
  if (hides) f.graded(Severity::kInfo);
  // Each step's work shared out evenly; at most also what ranks usually differ by.
  const auto evened = [&](bool usual) {
    return [&in, &own, usual](size_t i, const Cell& cell) {
      LedgerMs cut{};
      const auto at = static_cast<size_t>(&cell - in.baseline.rows[i]->cells.data());
      const double lead = own.at(i, at) + (usual ? own.usual(cell.rank) : 0), all_ms = comparable_ms(cell);
      if (!std::isfinite(lead) || !(all_ms > 0)) return cut;
      for (const Category c : kLaunchPhases)
        cut[index(c)] = static_cast<float>(std::min(lead / all_ms, 1.0)) * cell.ms[index(c)];
      return cut;
    };
  };
  f.saves(in.baseline, Change{.usual = evened(false), .most = evened(true)});
  f.confidence(std::min(0.99, correlation * in.coverage));
  const double mean_ms = lost_ms / static_cast<double>(in.baseline.size());
  // Before the baseline (warm-up) a step is uneven as here, what ranks usually differ by left out.
  const auto figure = [&](const StepRow& row) {
    double sum = 0, most = 0;
    for (const Cell& cell : row.cells) sum += comparable_ms(cell);
    for (const Cell& cell : row.cells)
      most = std::max(most, comparable_ms(cell) - sum / static_cast<double>(row.cells.size()) - own.usual(cell.rank));
    return std::min(most, mean_wait_ms(row));
  };
  f.from(in.onset(in.limits->onset_share * mean_ms, figure))
      .until(in.last_step())
      .title(formatted("Ranks take turns at being late, the one with more work in the step: {} of the time",
                       format_percent(share)))
      .action(
          "Give every rank about the same work per step: sort or pack by length, fill batches by tokens and not by "
          "samples")
      .evidence("lost_ms_per_step", mean_ms)
      .evidence("correlation_with_work", correlation, {}, {}, counted_in)
      .evidence("most_often_last_share", most_often_first(own, in.baseline));
  out.push_back(f);
}

}  // namespace stepscope
