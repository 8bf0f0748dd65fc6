#include "diagnose/host_growth.h"

#include <vector>

namespace stepscope::host {
namespace {

GrowthTrack track_of(const RankProcess& rank, const SampledSeries& series, const Window& window) {
  GrowthTrack t;
  t.by_steps = !rank.steps.empty();
  int64_t origin = 0;
  for (const SamplePoint& p : series.points) {
    if (!window.holds(p.time_ns)) continue;
    if (t.y.empty()) origin = p.time_ns;
    t.seconds.push_back(static_cast<double>(p.time_ns - origin) * 1e-9);
    t.x.push_back(t.by_steps ? steps_at(rank, p.time_ns) : t.seconds.back());
    t.y.push_back(p.value);
  }
  return t;
}

}  // namespace

GrowthVerdict judge_series(const RankProcess& rank, const SampledSeries& series, const Window& window,
                           const HostThresholds& limits) {
  if (window.empty()) return {};
  const GrowthTrack t = track_of(rank, series, window);
  if (t.y.empty()) return {};
  GrowthLimits rule;
  rule.begin_x = t.by_steps ? limits.creep_warmup_steps : t.x.front() + limits.creep_warmup_s;
  rule.least_span = t.by_steps ? limits.creep_min_steps : limits.creep_min_s;
  rule.new_high_share = limits.creep_new_high_share;
  rule.rule.min_points = static_cast<int>(limits.creep_min_samples);
  rule.rule.min_growth = limits.creep_min_bytes;
  rule.rule.max_residual = limits.creep_linearity;
  rule.rule.min_stairs = static_cast<int>(limits.stair_min_count);
  rule.rule.stair_flat_share = limits.stair_flat_share;
  return judge_track(t, rule);
}

std::optional<MemoryForecast> soonest_limit(const HostFacts& facts, std::span<const GrowingRank> growers) {
  std::optional<MemoryForecast> first;
  const auto consider = [&](std::optional<double> limit, std::optional<double> left, const char* of, auto&& within) {
    if (!limit || !left) return;
    std::vector<const GrowthVerdict*> below;
    int rank = -1;
    for (const GrowingRank& g : growers) {
      if (!within(*g.rank)) continue;
      below.push_back(g.verdict);
      rank = g.rank->rank;
    }
    auto found = forecast(below, *limit, *left);
    if (!found || (first && first->seconds.expected <= found->seconds.expected)) return;
    found->of = of;
    if (below.size() == 1) found->rank = rank;
    first = std::move(found);
  };
  consider(facts.memory_total_bytes, facts.host.memory_available_bytes.last_or_null(), "the host",
           [](const RankProcess&) { return true; });
  for (size_t i = 0; i < facts.cgroups.size(); ++i) {
    const CgroupFacts& group = facts.cgroups[i];
    const auto used = group.memory_used_bytes.last_or_null();
    if (!group.memory_limit_bytes || !used) continue;
    consider(group.memory_limit_bytes, *group.memory_limit_bytes - *used, "the control group",
             [i](const RankProcess& r) { return r.cgroup == static_cast<int>(i); });
  }
  return first;
}

}  // namespace stepscope::host
