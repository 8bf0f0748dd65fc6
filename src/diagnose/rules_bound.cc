// What the whole job is bound by: H2D_BOUND, WAIT_HEAVY.
//
// Time without a name is told by what the training thread did in it, as its CPU time says, where there is no device
// that stands still meanwhile:
//
//   waiting   the thread was on no core, and no wait that has a name explains that. What a named wait computes (taking
//   a
//             batch over) is taken off it as well, so that it may be more
//   own work  the rest: code of the program between the phases (acting, making batches, metrics). It is a part of many
//             loops, and graded later than waiting
//
// One step that has most of it (a profiler's trace, a download) is told as such: what is over holds nothing back.
#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include "analyze/robust.h"
#include "base/text_format.h"
#include "diagnose/rule.h"

namespace stepscope {

namespace {

double unnamed_ms(const Cell& cell) { return cell.ms[index(Category::kUnattributed)]; }

// All of it where nothing tells, or on a device: its stream stood still, whatever the host did.
double waiting_ms(const Cell& cell) {
  if (cell.gpu || cell.cpu_ms < 0) return unnamed_ms(cell);
  const bool of_workers = cell.fetch_in_flight + cell.fetch_out_of_order > 0;
  const double named_ms = cell.stall_ms + (of_workers ? cell.ms[index(Category::kInputWait)] : 0);
  return std::clamp<double>(cell.wall_ms - cell.cpu_ms - named_ms, 0, unnamed_ms(cell));
}

// Of it, what other programs that take the thread's core from it (`by_others`: of its own time, at most) do not
// explain.
double surely_waiting_ms(const Cell& cell, double by_others) {
  const double lost_ms = cell.cpu_ms < 0 ? 0 : by_others * cell.cpu_ms;
  return std::max(0.0, waiting_ms(cell) - lost_ms);
}

// The longest step of a rank, and the share of the job's time without that step of each rank.
struct Once {
  double steady_share = 0;
  int64_t step = -1;
};

Once without_longest(const RuleInput& in) {
  struct Sums {
    double all_ms = 0, wall_ms = 0, longest_ms = 0, of_longest_ms = 0;  // of_longest: as all_ms counts it
  };
  std::map<int, Sums> by_rank;
  Once once;
  double longest_ms = 0;
  for (size_t i = 0; i < in.rows.size(); ++i)
    for (const Cell& cell : in.rows.rows[i]->cells) {
      const double ms = unnamed_ms(cell);
      Sums& sums = by_rank[cell.rank];
      sums.all_ms += ms * in.rows.weights[i];
      sums.wall_ms += static_cast<double>(cell.wall_ms) * in.rows.weights[i];
      if (ms > sums.longest_ms) sums.longest_ms = ms, sums.of_longest_ms = ms * in.rows.weights[i];
      if (ms > longest_ms) longest_ms = ms, once.step = static_cast<int64_t>(in.rows.rows[i]->step);
    }
  std::vector<double> shares;
  for (const auto& [rank, sums] : by_rank)
    if (sums.wall_ms > 0) shares.push_back((sums.all_ms - sums.of_longest_ms) / sums.wall_ms);
  if (!shares.empty()) once.steady_share = lower_median(std::move(shares));
  return once;
}

void judge_h2d(const RuleInput& in, std::vector<Finding>& out) {
  const double h2d = in.share_of_job(Category::kH2d);
  if (in.share_severity(h2d) == Severity::kInfo) return;
  FindingBuilder f = in.of_job(FindingKind::kH2dBound, Category::kH2d, h2d, in.share_severity(h2d));
  f.saves(Category::kH2d)
      .title(formatted("Copies to the device take {} of the time", format_percent(h2d)))
      .action("Pin memory and copy with non_blocking=True, so that copies overlap with compute");
  out.push_back(f);
}

void judge_unnamed(const RuleInput& in, std::vector<Finding>& out) {
  const Thresholds& t = *in.limits;
  const double share = in.share_of_job(Category::kUnattributed);
  // Over all steps in scope, as the share is: it may lie in those that also save or validate.
  const double ms =
      share * in.rows.wall_ms() / std::max(1.0, std::accumulate(in.rows.weights.begin(), in.rows.weights.end(), 0.0));
  if (in.share_severity(share) == Severity::kInfo || ms < t.wait_heavy_min_ms) return;
  const Once once = without_longest(in);
  const double steady = once.steady_share, waiting = in.share_of_job(waiting_ms);
  const bool is_once = 2 * steady < share && in.share_severity(steady) == Severity::kInfo, works = 2 * waiting < share;
  if (is_once && !in.over) return;  // whether it comes again, a longer look or the rest of the run tells
  const Severity own_work = steady >= t.own_work_crit   ? Severity::kCrit
                            : steady >= t.own_work_warn ? Severity::kWarn
                                                        : Severity::kInfo;
  Severity severity = std::max(in.share_severity(std::min(waiting, steady)), own_work);
  // As of late ranks: what is critical is said although neighbours may have a part in it.
  if (severity == Severity::kWarn && own_work == Severity::kInfo) {
    const double by_others = in.slowdown_by_others(in.seen);
    const double surely = in.share_of_job([&](const Cell& cell) { return surely_waiting_ms(cell, by_others); });
    severity = in.share_severity(std::min(surely, steady));
  }
  FindingBuilder f = in.of_job(FindingKind::kWaitHeavy, Category::kUnattributed, share, severity);
  if (waiting < share) f.evidence("waiting_share", waiting);
  if (is_once) {
    f.from(once.step).until(once.step).evidence("share_without_longest_step", steady);
    f.title(formatted("{} of the time belongs to no known phase, most of it once, in step {}", format_percent(share),
                      once.step))
        .action("See what the program did there; it is over, unless it comes again");
  } else if (works) {
    f.caused_by(Cause::kOwnWork)
        .title(formatted("{} of the time is the program's own work between the known phases, {} per step",
                         format_percent(share), format_ms(ms)))
        .action(
            "Name it with stepscope.trace_phase to see what it is; where it need not be done in the training thread, "
            "do it in loader workers or another process, or less often");
  } else {
    f.title(formatted("{} of the time belongs to no known phase, {} per step", format_percent(share), format_ms(ms)))
        .action("Name the code between the phases with stepscope.trace_phase to see what it is");
  }
  out.push_back(f);
}

}  // namespace

void judge_bound(const RuleInput& in, std::vector<Finding>& out) {
  if (in.rows.size() < static_cast<size_t>(in.limits->min_steps)) return;
  judge_h2d(in, out);
  judge_unnamed(in, out);
}

}  // namespace stepscope
