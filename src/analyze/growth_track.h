// Growth of one series: over steps where they are known, else over seconds; its warm-up left out; the whole of it, then
// its newer parts, since a leak may begin late. Pure; the cost of analyze/growth.h for each of at most four parts.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analyze/growth.h"

namespace stepscope {

struct GrowthTrack {
  std::vector<double> x, seconds, y;  // x: steps or seconds, not decreasing
  bool by_steps = false;
};

struct GrowthLimits {
  GrowthRule rule;
  double begin_x = 0;         // where the warm-up ends
  double least_span = 0;      // of x, of growth
  double newest_span = 0;     // of x: this newest part is judged on its own as well; 0 = none
  double new_high_share = 0;  // of late growth that must lead above all that was before: a sawtooth does not
};

// A rate may be so many times as large as it was told; low <= 0: or it may be none.
struct RateRange {
  double low = 1, high = 1;
};

struct GrowthVerdict {
  GrowthShape shape = GrowthShape::kTooShort;  // kLinear and kStaircase are verified and go on; others are no finding
  double growth_bytes = 0, bytes_per_s = 0;
  std::optional<double> bytes_per_step;
  RateRange per_s, per_step;
  int stairs = 0;
  double stair_bytes = 0;
  int64_t first_step = -1;  // that lies on the line, traced back into warm-up
};

GrowthVerdict judge_track(const GrowthTrack& track, const GrowthLimits& limits);

}  // namespace stepscope
