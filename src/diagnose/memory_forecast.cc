#include "diagnose/memory_forecast.h"

#include <algorithm>
#include <cmath>

#include "base/text_format.h"
#include "diagnose/finding_builder.h"

namespace stepscope {
namespace {

struct Rate {
  double expected = 0, low = 0, high = 0;  // bytes per second or step

  void add(double rate, const RateRange& range) {
    expected += rate;
    low += rate * range.low;
    high += rate * range.high;
  }
  bool certain() const { return low > 0 && std::isfinite(high); }
  Ahead until(double bytes) const { return {bytes / expected, bytes / high, bytes / low}; }
};

void tell(FindingBuilder& f, const std::string& name, const Ahead& ahead, std::optional<int> rank) {
  f.evidence(name, ahead.expected, rank).evidence(name + "_low", ahead.low, rank);
  f.evidence(name + "_high", ahead.high, rank);
}

}  // namespace

std::optional<MemoryForecast> forecast(std::span<const GrowthVerdict* const> growers, double limit_bytes,
                                       double left_bytes) {
  Rate per_s, per_step;
  bool by_steps = !growers.empty();
  for (const GrowthVerdict* v : growers) {
    per_s.add(v->bytes_per_s, v->per_s);
    by_steps = by_steps && v->bytes_per_step.has_value();
    per_step.add(v->bytes_per_step.value_or(0), v->per_step);
  }
  if (!per_s.certain() || !(limit_bytes > 0)) return std::nullopt;
  const double left = std::max(0.0, left_bytes);
  MemoryForecast out{
      .limit_bytes = limit_bytes, .left_bytes = left, .of = "", .rank = {}, .seconds = per_s.until(left)};
  if (by_steps && per_step.certain()) out.steps = per_step.until(left);
  return out;
}

std::string range_text(const Ahead& seconds) {
  const std::string low = format_seconds(seconds.low), high = format_seconds(seconds.high);
  return low == high ? low : low + " to " + high;
}

void tell(FindingBuilder& f, const MemoryForecast& forecast) {
  tell(f, "seconds_to_limit", forecast.seconds, forecast.rank);
  if (forecast.steps) tell(f, "steps_to_limit", *forecast.steps, forecast.rank);
  f.evidence("limit_bytes", forecast.limit_bytes, forecast.rank, {}, "of " + forecast.of);
}

}  // namespace stepscope
