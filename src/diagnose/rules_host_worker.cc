// WORKER_MEMORY_GROWTH. Cause copy_on_write: forked loader workers un-share pages of their parent (reference counts are
// written into them): private memory grows while RSS stays, and the shared part shrinks by as much. Cause leak: the
// memory that the present set of workers holds grows along a verified line.
#include <algorithm>

#include "analyze/growth.h"
#include "base/text_format.h"
#include "diagnose/host_growth.h"
#include "diagnose/host_view.h"
#include "diagnose/rule.h"

namespace stepscope {

using namespace host;

namespace {

bool unshares(const WorkerGrowth& g, const HostThresholds& limits) {
  const double uss = g.uss_last_bytes - g.uss_first_bytes;
  if (g.workers == 0 || uss < limits.worker_growth_bytes) return false;
  const double rss = std::max(0.0, g.rss_last_bytes - g.rss_first_bytes);
  const double unshared = g.shared_anon_first_bytes - g.shared_anon_last_bytes;
  return uss - rss >= limits.worker_unshared_share * uss && unshared >= limits.worker_unshared_share * uss;
}

void copy_on_write(const RankProcess& r, const RuleInput& in, std::vector<Finding>& out) {
  const HostFacts& facts = *in.host;
  const WorkerGrowth& g = r.worker_growth;
  const double grown = g.uss_last_bytes - g.uss_first_bytes;
  FindingBuilder f = in.finding(FindingKind::kWorkerMemoryGrowth);
  f.about(r.rank)
      .in(Category::kInputWait)
      .caused_by(Cause::kCopyOnWrite)
      .graded(Severity::kWarn)
      .title(formatted("Loader workers of rank {} copied {} of their parent's memory in {}; {} more may follow", r.rank,
                       format_bytes(grown), format_seconds(g.seconds), format_bytes(g.shared_anon_last_bytes)))
      .action(
          "Keep the data set's samples in numpy or Arrow arrays instead of lists of Python objects, or share them by "
          "mmap")
      .evidence("worker_uss_growth_bytes", grown, r.rank)
      .evidence("workers", g.workers, r.rank)
      .evidence("worker_rss_growth_bytes", g.rss_last_bytes - g.rss_first_bytes, r.rank)
      .evidence("worker_shared_bytes", g.shared_anon_last_bytes, r.rank);
  if (const auto left = facts.host.memory_available_bytes.last_or_null()) {
    f.evidence("memory_available_bytes", *left);
    // All that is still shared may be copied once per worker.
    if (g.shared_anon_last_bytes > *left) f.graded(Severity::kCrit);
  }
  out.push_back(f);
}

void leak(const RankProcess& r, const RuleInput& in, std::vector<Finding>& out) {
  const HostFacts& facts = *in.host;
  const HostThresholds& limits = *in.host_limits;
  Window w = steady_window(r);
  if (w.empty() || r.worker_held_bytes.empty()) return;
  w.begin_ns = std::max(w.begin_ns, r.workers_since_ns);
  const Verdict v = judge_series(r, r.worker_held_bytes, w, limits);
  if (v.shape != GrowthShape::kLinear) return;
  FindingBuilder f = in.finding(FindingKind::kWorkerMemoryGrowth);
  f.about(r.rank)
      .in(Category::kInputWait)
      .caused_by(Cause::kLeak)
      .pattern("drifting")
      .graded(Severity::kWarn)
      .from(v.first_step)
      .title(formatted("Processes below rank {} (loader workers) hold {} more, {}/s", r.rank,
                       format_bytes(v.growth_bytes), format_bytes(v.bytes_per_s)))
      .action("Look for what the data set keeps per sample: open files, decoded images, caches without a bound")
      .evidence("worker_held_growth_bytes", v.growth_bytes, r.rank)
      .evidence("bytes_per_s", v.bytes_per_s, r.rank);
  if (v.bytes_per_step) f.evidence("bytes_per_step", *v.bytes_per_step, r.rank);
  const GrowingRank growing[] = {{&r, &v}};
  if (const auto ahead = soonest_limit(facts, growing)) {
    tell(f, *ahead);
    if (ahead->seconds.expected <= limits.creep_eta_crit_s) f.graded(Severity::kCrit);
  }
  out.push_back(f);
}

}  // namespace

void judge_host_workers(const RuleInput& in, std::vector<Finding>& out) {
  const HostFacts& facts = *in.host;
  const HostThresholds& limits = *in.host_limits;
  for (const RankProcess& r : facts.ranks) {
    if (unshares(r.worker_growth, limits))
      copy_on_write(r, in, out);
    else
      leak(r, in, out);
  }
}

}  // namespace stepscope
