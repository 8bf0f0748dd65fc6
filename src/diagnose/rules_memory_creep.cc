// MEMORY_CREEP: device memory that outlives the step grows along a verified line which the size of the batches does not
// explain. MEMORY_CREEP_EARLY: the same line over fewer steps, a notice. Growth that stops (lazy optimizer state,
// caches that fill) bends; growth with the batch is LENGTH_DRIVEN_PEAK.
#include <algorithm>
#include <limits>

#include "analyze/device_memory.h"
#include "analyze/robust.h"
#include "base/text_format.h"
#include "analyze/growth_track.h"
#include "diagnose/host_view.h"
#include "diagnose/memory_forecast.h"
#include "diagnose/rule.h"

namespace stepscope {

namespace {

struct Grower {
  const RankMemory* rank;
  GrowthVerdict verdict;
  bool held;
};

GrowthLimits limits_of(const Thresholds& t, bool early) {
  GrowthLimits limits;
  limits.begin_x = t.device_creep_warmup_steps;
  limits.least_span = early ? t.device_creep_early_steps : t.device_creep_min_steps;
  limits.newest_span = early ? 0 : t.device_creep_window_steps;
  limits.new_high_share = t.device_creep_new_high_share;
  limits.rule.min_growth = early ? t.device_creep_early_bytes : t.device_creep_min_bytes;
  limits.rule.max_residual = t.device_creep_linearity;
  return limits;
}

bool grows(const GrowthVerdict& v) { return v.shape == GrowthShape::kLinear || v.shape == GrowthShape::kStaircase; }

// Steps from one epoch's begin to the next, where the run has shown two.
std::optional<double> steps_per_epoch(const RuleInput& in) {
  std::vector<double> begins, gaps;
  for (const StepRow* row : in.with_warmup.rows)
    if (row->tags & kTagEpochStart) begins.push_back(row->step);
  for (size_t i = 1; i < begins.size(); ++i) gaps.push_back(begins[i] - begins[i - 1]);
  if (gaps.empty()) return std::nullopt;
  return median(gaps);
}

// Of the rank whose device is full first.
void tell_limit(FindingBuilder& f, const RuleInput& in, const std::vector<Grower>& growers) {
  std::optional<MemoryForecast> first;
  for (const Grower& g : growers) {
    const GrowthVerdict* const verdict[] = {&g.verdict};
    auto found = forecast(verdict, g.rank->capacity_bytes, g.rank->capacity_bytes * (1 - g.rank->demand_share()));
    if (!found || !found->steps || (first && first->steps->expected <= found->steps->expected)) continue;
    found->of = "the device";
    found->rank = g.rank->rank;
    first = std::move(found);
  }
  if (!first) return;
  tell(f, *first);
  if (first->seconds.expected < kFarthestSeconds)
    f.title_goes_on(
        formatted(", out of memory in {:.0f} steps ({})", first->steps->expected, range_text(first->seconds)));
  if (f->kind == FindingKind::kMemoryCreep && first->seconds.expected <= in.limits->device_creep_eta_crit_s)
    f.graded(Severity::kCrit);
}

Finding report(const RuleInput& in, const std::vector<Grower>& growers, bool early) {
  FindingBuilder f = in.finding(early ? FindingKind::kMemoryCreepEarly : FindingKind::kMemoryCreep);
  f.graded(early ? Severity::kInfo : Severity::kWarn)
      .throughout()
      .confidence(0.95)
      .pattern("drifting")
      .confidence(early ? 0.6 : 0.95)
      .from(std::numeric_limits<int64_t>::max());
  const auto epoch = steps_per_epoch(in);
  double per_step = 0, grown = 0;
  bool stairs = false;
  for (const Grower& g : growers) {
    f.also_about(g.rank->rank);
    f.from(std::min(f->first_step, g.verdict.first_step));
    per_step = std::max(per_step, *g.verdict.bytes_per_step);
    grown = std::max(grown, g.verdict.growth_bytes);
    stairs = stairs || g.verdict.shape == GrowthShape::kStaircase;
    if (f->evidence.size() >= 12) continue;
    f.evidence("bytes_per_step", *g.verdict.bytes_per_step, g.rank->rank)
        .evidence(g.held ? "held_growth_bytes" : "growth_bytes", g.verdict.growth_bytes, g.rank->rank);
    if (g.verdict.shape == GrowthShape::kStaircase) f.evidence("stair_bytes", g.verdict.stair_bytes, g.rank->rank);
    if (epoch) f.evidence("bytes_per_epoch", *g.verdict.bytes_per_step * *epoch, g.rank->rank);
    f.evidence("allocated_bytes", g.rank->allocated_bytes, g.rank->rank);
  }
  f.title(formatted("{}: device memory grows by {} per step{} ({} so far{})", capitalized(format_ranks(f->ranks)),
                    format_bytes(per_step), stairs ? " in stairs" : "", format_bytes(grown),
                    epoch ? formatted(", {} per epoch", format_bytes(per_step * *epoch)) : ""));
  tell_limit(f, in, growers);
  f.action(
      "Look for tensors kept from step to step: losses or outputs collected with their graph (.detach(), .item()), "
      "hidden states carried over, "
      "metrics on the device, caches without a bound");
  return f;
}

}  // namespace

void judge_device_creep(const RuleInput& in, std::vector<Finding>& out) {
  std::vector<Grower> confirmed, early;
  for (const RankMemory& m : in.memory) {
    const MemoryTrack measured = growth_track(in.with_warmup, m.rank, in.limits->device_creep_warmup_steps);
    const MemoryTrack rest = without_size(measured);
    const GrowthTrack track{rest.step, rest.seconds, rest.bytes, true};
    const GrowthVerdict v = judge_track(track, limits_of(*in.limits, false));
    if (grows(v)) {
      confirmed.push_back({&m, v, measured.held});
      continue;
    }
    const double span = track.x.empty() ? 0 : track.x.back() - track.x.front();
    if (span >= in.limits->device_creep_min_steps) continue;  // it had its time
    const GrowthVerdict first = judge_track(track, limits_of(*in.limits, true));
    if (grows(first)) early.push_back({&m, first, measured.held});
  }
  if (!confirmed.empty())
    out.push_back(report(in, confirmed, false));
  else if (!early.empty())
    out.push_back(report(in, early, true));
}

}  // namespace stepscope
