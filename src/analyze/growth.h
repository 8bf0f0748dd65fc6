// The shape in which a measured quantity grows: a verified straight line, one jump, stairs, or growth that dies out.
// Pure functions over x (steps or seconds, not decreasing) and y. O(n log n) for the shape, O(n²) with n <= 64 for the
// slope: longer input is first averaged down.
#pragma once

#include <span>
#include <vector>

namespace stepscope {

enum class GrowthShape { kTooShort, kFlat, kLinear, kJump, kStaircase, kSaturating, kIrregular };
const char* name(GrowthShape shape);

struct GrowthRule {
  int min_points = 6;
  double min_growth = 0;       // in units of y; less is flat
  double max_residual = 0.15;  // of a line: median distance from it, as a share of the growth
  int min_stairs = 3;
  double stair_flat_share = 0.6;  // of the intervals of a staircase without a stair
};

struct Growth {
  GrowthShape shape = GrowthShape::kTooShort;
  double slope = 0;      // y per x, Theil-Sen
  double intercept = 0;  // y at x = 0 of that line
  double growth = 0;     // end minus begin, medians of the ends
  double residual = 0;   // median distance from the line, as a share of the growth
  double span = 0;       // of x
  int points = 0;
  int stairs = 0;           // of a staircase or jump
  double stair_height = 0;  // median
};

// The slope and what it may be instead: by the ranks of the pairs' slopes (Sen's interval for Kendall's tau), 99 %.
struct SlopeRange {
  double slope = 0, low = 0, high = 0;
};
SlopeRange theil_sen_range(std::span<const double> x, std::span<const double> y);

// Median of the slopes over all pairs of points with different x; 0 with fewer than two such points.
double theil_sen_slope(std::span<const double> x, std::span<const double> y);

// Points of equal x become one (their last y): samples taken within one step tell nothing about growth per step.
Growth classify_growth(std::span<const double> x, std::span<const double> y, const GrowthRule& rule);

}  // namespace stepscope
