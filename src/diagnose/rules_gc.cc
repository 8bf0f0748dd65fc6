// GC_PAUSE: Python's garbage collection stops ranks, on one or all. Each collection costs the job what its longest rank
// spends in it.
#include <algorithm>
#include <map>

#include "base/text_format.h"
#include "diagnose/rule.h"

namespace stepscope {

void judge_gc(const RuleInput& in, std::vector<Finding>& out) {
  if (in.rows.size() < static_cast<size_t>(in.limits->min_steps)) return;
  double cost_ms = 0;
  std::map<int, double> per_rank;
  int64_t first = -1, last = -1;
  size_t steps = 0;
  for (size_t i = 0; i < in.rows.size(); ++i) {
    double worst = 0;
    for (const Cell& cell : in.rows.rows[i]->cells) {
      const double ms = cell.gc_ms;
      worst = std::max(worst, ms);
      per_rank[cell.rank] += ms * in.rows.weights[i];
    }
    cost_ms += worst * in.rows.weights[i];
    if (worst < in.limits->gc_min_ms) continue;
    ++steps;
    if (first < 0) first = in.rows.rows[i]->step;
    last = in.rows.rows[i]->step;
  }
  const double wall = in.rows.wall_ms();
  const double share = wall > 0 ? cost_ms / wall : 0;
  if (in.severity(share) == Severity::kInfo || steps < static_cast<size_t>(in.limits->pause_min_repeats)) return;
  double most = 0;
  for (const auto& [rank, ms] : per_rank) most = std::max(most, ms);
  std::vector<int> ranks;
  for (const auto& [rank, ms] : per_rank)
    if (ms > in.limits->gc_rank_share * most) ranks.push_back(rank);
  FindingBuilder f = in.finding(FindingKind::kGcPause);
  f.about(ranks).in(Category::kHostPause).caused_by(Cause::kGc).costs(share).from(first).until(last).confidence(0.95);
  if (in.others_than(ranks).empty()) f.about_job();
  f.saves(removal_of(Category::kHostPause, [](size_t, const Cell& cell) { return cell.gc_ms; }));
  out.push_back(
      f.title(formatted("Python's garbage collection stops {} for {} of the time",
                        f->job_scope ? std::string("training") : format_ranks(ranks), format_percent(share)))
          .action("Collect at fixed steps on all ranks (gc.disable, gc.collect every N steps), or gc.freeze() after "
                  "warm-up")
          .evidence("gc_ms_per_affected_step", steps ? cost_ms / static_cast<double>(steps) : 0)
          .evidence("affected_steps", static_cast<double>(steps)));
}

}  // namespace stepscope
