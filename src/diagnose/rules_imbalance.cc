// LOAD_IMBALANCE: the ranks take turns at being late, and late is the one that got more work in this step.
//
//   lead(r, k)  own time of rank r in step k - mean over the ranks - what r usually leads by (its median over the
//               steps: a rank that is always late is a straggler's affair)
//   work(r, k)  tokens, elements of the model's input or samples, whichever tells most, treated alike
//   loss(k)     the largest lead of the step, at most what the ranks waited in it on average: the time that the step
//               would be shorter with the same work dealt out evenly
//
// Said when the losses are worth a warning and lead goes with work (Pearson's correlation over all ranks and steps).
// Where no count goes with it, and the steps' work is the host's, the CPU time of the training thread tells: a rank
// that computes longer got more work, one that had no core, slept or waited did not. The clock speed and a neighbour on
// the same physical core lengthen both by several per cent, so that it is graded as waiting without a culprit is; where
// other programs on the host may cost as much, it is information.
// Unevenness alone is the machine's as often as the data's, and nothing is said of it here.
#include <algorithm>
#include <cmath>
#include <vector>

#include "analyze/batch_size.h"
#include "analyze/straggler.h"
#include "analyze/whatif.h"
#include "base/text_format.h"
#include "diagnose/leads.h"
#include "diagnose/rule.h"

namespace stepscope {

namespace {

// What goes with the leads: the size of the batches, counted in something, or else the CPU time ("ms of CPU time").
struct Work {
  double correlation = 0;
  const char* counted_in = "";
  bool counted = true;
};

Work work_behind(const Leads& own, const RuleInput& in) {
  Work work;
  for (const BatchSize& batch : kBatchSizes) {
    const double by = own.correlation(Leads(in.baseline, [&](const Cell& cell) { return cell.*batch.size; }));
    if (by > work.correlation) work = {.correlation = by, .counted_in = batch.units};
  }
  if (work.correlation >= in.limits->imbalance_min_correlation || in.on_device()) return work;
  const Leads cpu(in.baseline, [](const Cell& cell) { return cell.cpu_ms; });
  if (own.reached_by(cpu) < in.limits->imbalance_cpu_share) return work;
  return {.correlation = own.correlation(cpu), .counted_in = "ms of CPU time", .counted = false};
}

}  // namespace

void judge_imbalance(const RuleInput& in, std::vector<Finding>& out) {
  if (in.seen.size() < 2 || in.baseline.size() < 2 * static_cast<size_t>(in.limits->min_steps)) return;
  const double wall_ms = in.baseline.wall_ms();
  if (wall_ms <= 0 || in.severity(most_lost_ms(in.baseline) / wall_ms) == Severity::kInfo) return;
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
  const Work work = work_behind(own, in);
  if (work.correlation < (work.counted ? in.limits->imbalance_min_correlation : in.limits->imbalance_cpu_correlation))
    return;

  if (!work.counted && share < in.limits->loss_wait_warn) return;
  FindingBuilder f = in.finding(FindingKind::kLoadImbalance);
  f.caused_by(Cause::kMoreWork).pattern("rotating").about_job().on_steps_clock().costs(share);
  if (!work.counted) f.graded(share < in.limits->loss_wait_crit ? Severity::kWarn : Severity::kCrit);
  if (hides || (!work.counted && share <= in.slowdown_by_others(in.seen))) f.graded(Severity::kInfo);
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
  f.confidence(std::min(0.99, work.correlation * in.coverage));
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
      .title(formatted("Ranks take turns at being late, the one {} in the step: {} of the time",
                       work.counted ? "with more work" : "that computes longer", format_percent(share)))
      .action(work.counted
                  ? "Give every rank about the same work per step: sort or pack by length, fill batches by tokens and "
                    "not by samples"
                  : "No count of the batches tells the work: see what differs in them (edges, objects, lengths, "
                    "branches taken), share it out evenly; stepscope.log(tokens=...) tells it")
      .evidence("lost_ms_per_step", mean_ms)
      .evidence("correlation_with_work", work.correlation, {}, {}, work.counted_in)
      .evidence("most_often_last_share", most_often_first(own, in.baseline));
  out.push_back(f);
}

}  // namespace stepscope
