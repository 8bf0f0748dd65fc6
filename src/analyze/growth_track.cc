#include "analyze/growth_track.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace stepscope {
namespace {

std::span<const double> tail(const std::vector<double>& v, size_t from) {
  return std::span(v).subspan(std::min(from, v.size()));
}

size_t first_at(const GrowthTrack& t, double x) {
  return static_cast<size_t>(std::lower_bound(t.x.begin(), t.x.end(), x) - t.x.begin());
}

// A sawtooth climbs too, but only to where it has been: the newer part must lead to new heights.
bool new_high(const GrowthTrack& t, size_t begin, size_t from, const Growth& g, double share) {
  if (from == begin) return true;
  const double before =
      *std::max_element(t.y.begin() + static_cast<long>(begin), t.y.begin() + static_cast<long>(from));
  return t.y.back() - before >= share * g.growth;
}

RateRange range_of(std::span<const double> x, std::span<const double> y) {
  const SlopeRange range = theil_sen_range(x, y);
  return range.slope > 0 ? RateRange{range.low / range.slope, range.high / range.slope} : RateRange{0, 0};
}

// Of a line: what its slope may be. Of stairs: one more or one less in the same time.
void tell_range(const GrowthTrack& t, size_t from, const Growth& g, GrowthVerdict& out) {
  if (g.shape == GrowthShape::kStaircase) {
    out.per_s = out.per_step = {1 - 1.0 / g.stairs, 1 + 1.0 / g.stairs};
    return;
  }
  out.per_s = range_of(tail(t.seconds, from), tail(t.y, from));
  if (t.by_steps) out.per_step = range_of(tail(t.x, from), tail(t.y, from));
}

int64_t trace_back(const GrowthTrack& t, size_t from, const Growth& g) {
  if (!t.by_steps) return -1;
  const double tolerance = std::max(0.1, 3 * g.residual) * g.growth;
  size_t i = from;
  while (i > 0 && std::abs(t.y[i - 1] - (g.intercept + g.slope * t.x[i - 1])) <= tolerance) --i;
  return std::max<int64_t>(0, i == 0 ? 0 : static_cast<int64_t>(t.x[i]));
}

}  // namespace

GrowthVerdict judge_track(const GrowthTrack& t, const GrowthLimits& limits) {
  GrowthVerdict out;
  if (t.y.empty()) return out;
  const size_t begin = first_at(t, limits.begin_x);
  if (begin >= t.y.size()) return out;
  const double end = t.x.back(), span = end - t.x[begin];
  std::vector<double> starts = {t.x[begin], t.x[begin] + 0.5 * span, t.x[begin] + 0.75 * span};
  if (limits.newest_span > 0 && limits.newest_span < span) starts.push_back(end - limits.newest_span);
  for (size_t i = 0; i < starts.size(); ++i) {
    const size_t from = first_at(t, starts[i]);
    if (end - t.x[from] < limits.least_span) continue;
    const Growth g = classify_growth(tail(t.x, from), tail(t.y, from), limits.rule);
    if (i == 0) out.shape = g.shape;
    if (g.shape != GrowthShape::kLinear && g.shape != GrowthShape::kStaircase) continue;
    if (!new_high(t, begin, from, g, limits.new_high_share)) continue;
    out.shape = g.shape;
    out.growth_bytes = g.growth;
    out.bytes_per_s = theil_sen_slope(tail(t.seconds, from), tail(t.y, from));
    const double seconds = t.seconds.back() - t.seconds[from];
    if (g.shape == GrowthShape::kStaircase && seconds > 0) out.bytes_per_s = g.growth / seconds;
    if (t.by_steps) out.bytes_per_step = g.shape == GrowthShape::kLinear ? g.slope : g.growth / g.span;
    tell_range(t, from, g, out);
    out.stairs = g.stairs;
    out.stair_bytes = g.stair_height;
    out.first_step = trace_back(t, from, g);
    return out;
  }
  if (out.shape == GrowthShape::kLinear || out.shape == GrowthShape::kStaircase) out.shape = GrowthShape::kIrregular;
  return out;
}

}  // namespace stepscope
