// HOST_MEMORY_CREEP: the memory that a rank holds (anonymous, shared and swapped; page cache is not) grows along a
// verified straight line after warm-up. MEMORY_STAIRCASE: it grows in steps of similar height that go on. One jump, a
// warm-up that saturates, a sawtooth that comes back to its old height: no finding.
#include <algorithm>
#include <cmath>
#include <limits>

#include "analyze/growth.h"
#include "base/text_format.h"
#include "diagnose/host_growth.h"
#include "diagnose/host_view.h"
#include "diagnose/memory_forecast.h"
#include "diagnose/rule.h"

namespace stepscope {

using namespace host;

namespace {

// A heap that settles under batches of changing size, a cache that fills: a straight line as well, but neither large
// nor long.
bool may_settle(const RankProcess& r, const Verdict& v, const HostThresholds& limits) {
  const double before = r.held_bytes.last - v.growth_bytes;
  if (v.growth_bytes >= limits.creep_large_share * before) return false;
  return v.bytes_per_step ? v.growth_bytes < limits.creep_long_steps * *v.bytes_per_step
                          : v.growth_bytes < limits.creep_long_s * v.bytes_per_s;
}

struct Grower {
  const RankProcess* rank;
  Verdict verdict;
};

Finding report(const std::vector<Grower>& growers, bool stairs, const RuleInput& in) {
  const HostThresholds& limits = *in.host_limits;
  FindingBuilder f = in.finding(stairs ? FindingKind::kMemoryStaircase : FindingKind::kHostMemoryCreep);
  f.pattern("drifting").graded(Severity::kWarn).confidence(0.95);
  double total_per_s = 0, largest = 0, per_step = 0, height = 0;
  bool settles = !stairs;
  std::vector<GrowingRank> growing;
  f.from(std::numeric_limits<int64_t>::max());
  for (const Grower& g : growers) {
    const Verdict& v = g.verdict;
    f.also_about(g.rank->rank);
    total_per_s += v.bytes_per_s;
    largest = std::max(largest, v.growth_bytes);
    per_step = std::max(per_step, v.bytes_per_step.value_or(0));
    height = std::max(height, v.stair_bytes);
    f.from(std::min(f->first_step, v.first_step));
    settles = settles && may_settle(*g.rank, v, limits);
    growing.push_back({g.rank, &v});
    if (f->evidence.size() >= 12) continue;
    f.evidence("held_growth_bytes", v.growth_bytes, g.rank->rank).evidence("bytes_per_s", v.bytes_per_s, g.rank->rank);
    if (v.bytes_per_step) f.evidence("bytes_per_step", *v.bytes_per_step, g.rank->rank);
    if (stairs) f.evidence("stairs", v.stairs, g.rank->rank);
    const auto uss = g.rank->uss_bytes.last_or_null();
    if (uss) f.evidence("uss_bytes", *uss, g.rank->rank);
  }
  std::string who = format_ranks(f->ranks);
  who[0] = 'R';
  const char* verb = f->ranks.size() == 1 ? "grows" : "grow";
  std::string rate =
      per_step > 0 ? formatted("{} per step", format_bytes(per_step)) : formatted("{}/s", format_bytes(total_per_s));
  if (stairs)
    rate = formatted("in stairs of {}", format_bytes(height));
  else
    rate = "by " + rate;
  f.title(formatted("{}: host memory {} {} ({} so far)", who, verb, rate, format_bytes(largest)));
  if (const auto ahead = soonest_limit(*in.host, growing)) {
    tell(f, *ahead);
    if (ahead->seconds.expected < kFarthestSeconds)
      f.title_goes_on(formatted(", memory is full in {}", range_text(ahead->seconds)));
    settles = settles && ahead->left_bytes > limits.creep_near_factor * largest;
    if (ahead->seconds.expected <= limits.creep_eta_crit_s && !settles) f.graded(Severity::kCrit);
    // A few stairs say little about a time that is hundreds of times as long as they took.
    if (stairs && ahead->seconds.expected > limits.stair_max_extrapolation * largest / total_per_s)
      f.graded(Severity::kInfo);
  }
  if (settles) f.graded(Severity::kInfo).confidence(0.5);
  f.action(
      settles ? "It is small and young: a heap or a cache that fills looks the same. Look again in some hundred steps"
      : stairs
          ? "Look at what runs at each stair (validation, checkpoint, epoch end): results or state dicts are kept"
          : "Look for what is kept every step: lists of tensors or outputs, losses with their graph, caches without "
            "a bound");
  return f;
}

}  // namespace

void judge_host_growth(const RuleInput& in, std::vector<Finding>& out) {
  const HostFacts& facts = *in.host;
  const HostThresholds& limits = *in.host_limits;
  std::vector<Grower> lines, stairs;
  for (const RankProcess& r : facts.ranks) {
    const Verdict v = judge_series(r, r.held_bytes, steady_window(r), limits);
    if (v.shape == GrowthShape::kLinear) lines.push_back({&r, v});
    if (v.shape == GrowthShape::kStaircase) stairs.push_back({&r, v});
  }
  if (!lines.empty()) out.push_back(report(lines, false, in));
  if (!stairs.empty()) out.push_back(report(stairs, true, in));
}

}  // namespace stepscope
