// HOST_MEMORY_PRESSURE: the host or the ranks' cgroup is nearly out of memory that cannot be dropped, or swaps. Page
// cache is no pressure: the kernel gives it back (MemAvailable, usage less inactive files).
#include <algorithm>

#include "analyze/robust.h"
#include "base/text_format.h"
#include "diagnose/host_view.h"
#include "diagnose/rule.h"

namespace stepscope {

using namespace host;

namespace {

struct Level {
  double used_share = 0, newest_share = 0;  // peak and newest
  double limit_bytes = 0;
  std::string where;
};

// The fuller of the host and the cgroups of the ranks.
std::optional<Level> fullest(const HostFacts& facts, const HostThresholds& limits) {
  std::optional<Level> worst;
  const auto consider = [&](double used_peak, double used_now, double limit, std::string where) {
    if (limit <= 0) return;
    const Level level{used_peak / limit, used_now / limit, limit, std::move(where)};
    if (!worst || level.used_share > worst->used_share) worst = level;
  };
  const SampledSeries& available = facts.host.memory_available_bytes;
  if (facts.memory_total_bytes && static_cast<double>(available.count) >= limits.min_samples) {
    const double total = *facts.memory_total_bytes;
    consider(total - available.min, total - available.last, total, "the host");
  }
  for (const CgroupFacts& g : facts.cgroups) {
    if (!g.memory_limit_bytes || static_cast<double>(g.memory_used_bytes.count) < limits.min_samples) continue;
    consider(g.memory_used_bytes.max, g.memory_used_bytes.last, *g.memory_limit_bytes, "the ranks' cgroup");
  }
  return worst;
}

double sustained_rate(const SampledSeries& series, const HostThresholds& limits) {
  std::vector<double> v;
  for (const SamplePoint& p : series.points) v.push_back(p.value);
  if (static_cast<double>(v.size()) < limits.min_samples) return 0;
  return share_at_least(v, limits.swap_bytes_per_s) >= limits.sustained_share ? median(v) : 0;
}

uint64_t killed(const HostFacts& facts) {
  uint64_t n = 0;
  for (const CgroupFacts& g : facts.cgroups) n += g.oom_kills.delta();
  return n;
}

}  // namespace

void judge_host_memory(const RuleInput& in, std::vector<Finding>& out) {
  const HostFacts& facts = *in.host;
  const HostThresholds& limits = *in.host_limits;
  const auto level = fullest(facts, limits);
  const double swap_in = sustained_rate(facts.host.swap_in_bytes_per_s, limits);
  const double swap_out = sustained_rate(facts.host.swap_out_bytes_per_s, limits);
  const double stalled = facts.host.memory_full_pressure_share.mean_or_null().value_or(0);
  const uint64_t kills = killed(facts);
  const bool near = level && level->used_share >= limits.memory_near_limit_share;
  const bool swaps = swap_in > 0 || swap_out > 0;
  if (!near && !swaps && kills == 0 && stalled < limits.memory_stall_share) return;

  FindingBuilder f = in.finding(FindingKind::kHostMemoryPressure);
  f.about_job().costs(stalled,
                      stalled * static_cast<double>(facts.last_ns - facts.first_ns) * 1e-9);  // every task stood still
  if (kills > 0 || (near && level->used_share >= limits.memory_at_limit_share)) f.graded(Severity::kCrit);
  if (kills > 0) {
    f.caused_by(Cause::kOomKill)
        .title(formatted("The kernel killed {} process(es) in the ranks' cgroup for lack of memory", kills));
  } else if (near) {
    f.caused_by(Cause::kNearLimit)
        .title(formatted("{:.0f} % of the {} of memory of {} were in use (page cache not counted)",
                         100 * level->used_share, format_bytes(level->limit_bytes), level->where));
  } else if (swaps) {
    f.caused_by(Cause::kSwap)
        .title(formatted("The host swaps: {}/s in, {}/s out", format_bytes(swap_in), format_bytes(swap_out)));
  } else {
    f.caused_by(Cause::kReclaim).title(formatted("Tasks stand still for memory {:.0f} % of the time", 100 * stalled));
  }
  f.action("Lower the memory per rank (batch size, loader workers, prefetch, offloading), or raise the limit");
  if (level) {
    f.evidence("memory_used_peak_share", level->used_share)
        .evidence("memory_used_share", level->newest_share)
        .evidence("memory_limit_bytes", level->limit_bytes);
  }
  if (swaps) {
    f.evidence("swap_in_bytes_per_s", swap_in).evidence("swap_out_bytes_per_s", swap_out);
  }
  if (const auto psi = facts.host.memory_full_pressure_share.mean_or_null()) {
    f.evidence("memory_full_pressure_share", *psi);
  }
  if (kills > 0) f.evidence("oom_kills", static_cast<double>(kills));
  out.push_back(f);
}

}  // namespace stepscope
