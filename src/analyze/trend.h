// Whether a series of step figures moves: to another level at one place (a change), or little by little (a drift).
//
// The series is cut into blocks of equal length and each is represented by its median, so that single slow steps do not
// count and dependence between neighbouring steps is mostly averaged out. What a block's median varies by is measured
// from the differences of neighbouring blocks (median absolute deviation / sqrt 2), which a trend hardly moves. The two
// models are
//   change  two levels, split where the sum of absolute deviations from their medians is least
//   drift   the line of Theil (1950) and Sen (1968): the median of the slopes between all pairs of blocks
// and the one with the smaller sum of absolute deviations is taken; a change whose two levels move the same way by a
// quarter of it and more each is a drift with a kink. A move counts from `min_share` of the first level
// and `min_sigmas` of the noise of such a difference on; a drift also needs Kendall's tau >= `min_tau`: most pairs of
// blocks are in its order.
//
// Pure. O(n) + O(blocks²), at most 32 blocks.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace stepscope {

struct TrendLimits {
  double min_share = 0.05, min_sigmas = 8, min_tau = 0.5;
};

struct Trend {
  bool drifts = false;           // else a change
  size_t from = 0;               // index of the first value on the new level; of a drift 0
  double before = 0, after = 0;  // level before and after; of a drift at its two ends
  double excess_share = 0;       // of the sum of all values: what lies above the first level
  double sigmas = 0;             // the move over its noise
};

// The strongest move of the series, nullopt where there is none; needs at least 8 blocks of 4 finite values.
std::optional<Trend> trend_of(const std::vector<double>& values, const TrendLimits& limits = {});

}  // namespace stepscope
