#include "analyze/growth.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace stepscope {
namespace {

struct Xy {
  std::vector<double> x, y;
};

// n points, y = f(i) + noise of standard deviation sigma.
template <class F>
Xy make(int n, double sigma, unsigned seed, F f) {
  std::mt19937 random(seed);
  std::normal_distribution<double> noise(0, 1);
  Xy out;
  for (int i = 0; i < n; ++i) {
    out.x.push_back(10.0 * i);
    out.y.push_back(f(i) + sigma * noise(random));
  }
  return out;
}

GrowthShape shape(const Xy& d, double min_growth = 64) {
  GrowthRule rule;
  rule.min_growth = min_growth;
  return classify_growth(d.x, d.y, rule).shape;
}

RC_GTEST_PROP(Growth, LineIsLinearWithItsSlope, ()) {
  const int n = *rc::gen::inRange(6, 300);
  const double total = *rc::gen::inRange(100, 100000);
  const auto seed = *rc::gen::arbitrary<unsigned>();
  const Xy d = make(n, 0.01 * total, seed, [&](int i) { return 500 + total * i / (n - 1); });
  const Growth g = classify_growth(d.x, d.y, {.min_points = 6, .min_growth = 64});
  RC_ASSERT(g.shape == GrowthShape::kLinear);
  const double truth = total / (10.0 * (n - 1));
  RC_ASSERT(std::abs(g.slope - truth) < 0.1 * truth);
}

// The true slope is within the range in at least 95 of 100 lines, whether the noise is white or carried on.
TEST(Growth, TheRangeOfASlopeHoldsTheTrueOne) {
  for (const double carried : {0.0, 0.6}) {
    int held = 0;
    double widest = 0;
    for (unsigned seed = 0; seed < 200; ++seed) {
      Xy d = make(400, 1, seed, [](int) { return 0.0; });
      double before = 0;
      for (size_t i = 0; i < d.y.size(); ++i) {
        before = carried * before + std::sqrt(1 - carried * carried) * d.y[i];
        d.y[i] = 20 * before + 0.1 * d.x[i];
      }
      const SlopeRange r = theil_sen_range(d.x, d.y);
      EXPECT_TRUE(r.low <= r.slope && r.slope <= r.high);
      held += r.low <= 0.1 && 0.1 <= r.high;
      widest = std::max(widest, r.high - r.low);
    }
    EXPECT_GE(held, 190) << carried;
    EXPECT_LT(widest, 0.02) << carried;
  }
  EXPECT_EQ(theil_sen_range({}, {}).slope, 0);
}

RC_GTEST_PROP(Growth, FlatNoiseNeverGrows, ()) {
  const int n = *rc::gen::inRange(6, 300);
  const double sigma = *rc::gen::inRange(0, 15);
  const Xy d = make(n, sigma, *rc::gen::arbitrary<unsigned>(), [](int) { return 1000.0; });
  const GrowthShape s = shape(d);
  RC_ASSERT(s == GrowthShape::kFlat || s == GrowthShape::kIrregular);
}

RC_GTEST_PROP(Growth, OneJumpIsNeverUnbounded, ()) {
  const int n = *rc::gen::inRange(8, 300);
  const int at = *rc::gen::inRange(1, n);
  const double height = *rc::gen::inRange(70, 100000);
  const Xy d =
      make(n, 0.01 * height, *rc::gen::arbitrary<unsigned>(), [&](int i) { return i < at ? 500.0 : 500 + height; });
  const GrowthShape s = shape(d);
  RC_ASSERT(s != GrowthShape::kLinear && s != GrowthShape::kStaircase);
}

RC_GTEST_PROP(Growth, WarmUpThatSaturatesIsNoLine, ()) {
  const int n = *rc::gen::inRange(12, 300);
  const double tau = n * *rc::gen::inRange(5, 33) / 100.0;  // up to a third of the span
  const Xy d =
      make(n, 5, *rc::gen::arbitrary<unsigned>(), [&](int i) { return 300 + 1000 * (1 - std::exp(-i / tau)); });
  const GrowthShape s = shape(d);
  RC_ASSERT(s != GrowthShape::kLinear && s != GrowthShape::kStaircase);
}

RC_GTEST_PROP(Growth, RampThenFlatIsNoLine, ()) {
  const int n = *rc::gen::inRange(12, 300);
  const int knee = n * *rc::gen::inRange(5, 70) / 100 + 1;
  const Xy d =
      make(n, 3, *rc::gen::arbitrary<unsigned>(), [&](int i) { return 300 + 1000.0 * std::min(i, knee) / knee; });
  const GrowthShape s = shape(d);
  RC_ASSERT(s != GrowthShape::kLinear && s != GrowthShape::kStaircase);
}

RC_GTEST_PROP(Growth, RegularStairsAreAStaircase, ()) {
  const int stairs = *rc::gen::inRange(3, 12);
  const int every = *rc::gen::inRange(6, 20);
  const double height = *rc::gen::inRange(100, 10000);
  const int n = stairs * every + every / 2;
  const Xy d = make(n, 0.004 * height, *rc::gen::arbitrary<unsigned>(),
                    [&](int i) { return 500 + height * ((i + every / 2) / every); });
  const Growth g = classify_growth(d.x, d.y, {.min_points = 6, .min_growth = 64});
  RC_ASSERT(g.shape == GrowthShape::kStaircase);
  RC_ASSERT(std::abs(g.stairs - stairs) <= 1);
  RC_ASSERT(std::abs(g.stair_height - height) < 0.1 * height);
}

RC_GTEST_PROP(Growth, ShapeDoesNotDependOnOriginOrScale, ()) {
  const int n = *rc::gen::inRange(6, 120);
  const double scale = *rc::gen::inRange(1, 1000), shift = *rc::gen::inRange(-1000, 1000);
  const auto kind = *rc::gen::inRange(0, 3);
  const Xy d = make(n, 10, *rc::gen::arbitrary<unsigned>(), [&](int i) {
    return kind == 0 ? 10.0 * i : kind == 1 ? 400.0 * (i > n / 2) : 300 * std::sqrt(i);
  });
  Xy e = d;
  for (double& v : e.x) v = v * 7 + 3;
  for (double& v : e.y) v = v * scale + shift;
  RC_ASSERT(shape(d, 64) == shape(e, 64 * scale));
}

RC_GTEST_PROP(Growth, AnyInputIsSafe, (const std::vector<double>& x, const std::vector<double>& y)) {
  const Growth g = classify_growth(x, y, {});
  RC_ASSERT(g.points <= static_cast<int>(std::min(x.size(), y.size())));
}

TEST(Growth, TooFewPointsGiveNoShape) {
  EXPECT_EQ(shape(make(5, 0, 1, [](int i) { return 1000.0 * i; })), GrowthShape::kTooShort);
}

TEST(Growth, PointsOfOneStepCountOnce) {
  Xy d;  // one step lasts ten samples and adds 50: a staircase in time, a line in steps
  for (int i = 0; i < 200; ++i) {
    d.x.push_back(i / 10);
    d.y.push_back(50.0 * (i / 10));
  }
  const Growth g = classify_growth(d.x, d.y, {.min_points = 6, .min_growth = 64});
  EXPECT_EQ(g.shape, GrowthShape::kLinear);
  EXPECT_NEAR(g.slope, 50, 1e-9);
  EXPECT_EQ(g.points, 20);
}

TEST(Growth, StairsThatStoppedAreNotUnbounded) {
  const Xy d = make(120, 0.1, 3, [](int i) { return 100.0 * std::min(i / 10, 4); });
  EXPECT_EQ(shape(d), GrowthShape::kSaturating);
}

TEST(Growth, SawtoothIsNoLine) {
  const Xy d = make(120, 2, 5, [](int i) { return 500.0 + 25.0 * (i % 10); });
  EXPECT_NE(shape(d), GrowthShape::kLinear);
  EXPECT_NE(shape(d), GrowthShape::kStaircase);
}

TEST(Growth, TheilSenForgivesAQuarterOfOutliers) {
  Xy d = make(40, 0, 1, [](int i) { return 3.0 * i; });
  for (size_t i = 0; i < d.y.size(); i += 4) d.y[i] = 1e6;
  EXPECT_NEAR(theil_sen_slope(d.x, d.y), 0.3, 0.06);
}

}  // namespace
}  // namespace stepscope
