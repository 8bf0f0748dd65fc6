#include "analyze/trend.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace stepscope {
namespace {

// Log-normal noise with a lag-one correlation.
std::vector<double> noisy(size_t count, double sigma, double correlation, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<double> out;
  double state = normal(random);
  for (size_t i = 0; i < count; ++i) {
    out.push_back(10 * std::exp(sigma * state));
    state = correlation * state + std::sqrt(1 - correlation * correlation) * normal(random);
  }
  return out;
}

TEST(Trend, TwoLevelsByHand) {
  std::vector<double> values(64, 10.0);
  for (size_t i = 37; i < 64; ++i) values[i] = 12;
  const auto trend = trend_of(values);
  ASSERT_TRUE(trend);
  EXPECT_FALSE(trend->drifts);
  EXPECT_EQ(trend->from, 37u);
  EXPECT_EQ(trend->before, 10);
  EXPECT_EQ(trend->after, 12);
  EXPECT_NEAR(trend->excess_share, 27 * 2 / (640.0 + 54), 0.01) << "a block at the edge counts as a whole";
}

TEST(Trend, ALineByHand) {
  std::vector<double> values;
  for (int i = 0; i < 320; ++i) values.push_back(100 + 0.1 * i);
  const auto trend = trend_of(values);
  ASSERT_TRUE(trend);
  EXPECT_TRUE(trend->drifts);
  EXPECT_NEAR(trend->before, 100, 1);
  EXPECT_NEAR(trend->after, 131, 1);
  EXPECT_NEAR(trend->excess_share, 15.5 / 116, 0.01);
}

TEST(Trend, SingleSlowStepsAndShortBurstsAreNone) {
  std::vector<double> values(200, 10.0);
  for (size_t i = 10; i < 200; i += 17) values[i] = 500;
  for (size_t i = 100; i < 106; ++i) values[i] = 20;
  EXPECT_FALSE(trend_of(values));
}

TEST(Trend, NothingIsSaidOfTooLittle) {
  std::vector<double> values(31, 10.0);
  for (size_t i = 16; i < 31; ++i) values[i] = 20;
  EXPECT_FALSE(trend_of(values));
  EXPECT_FALSE(trend_of({}));
  EXPECT_FALSE(trend_of(std::vector<double>(64, std::nan(""))));
}

// Noise whose neighbours are alike is not taken for a move: at most one in a hundred.
TEST(Trend, NoiseIsNoMove) {
  for (double correlation : {0.0, 0.5, 0.8}) {
    int said = 0;
    for (uint64_t seed = 0; seed < 300; ++seed) said += trend_of(noisy(400, 0.03, correlation, seed)).has_value();
    EXPECT_LE(said, 3) << "correlation " << correlation;
  }
}

TEST(Trend, FivePercentAreFoundInNoiseOfThree) {
  int found = 0, near = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    std::vector<double> values = noisy(400, 0.03, 0, seed);
    for (size_t i = 250; i < values.size(); ++i) values[i] *= 1.07;
    const auto trend = trend_of(values);
    found += trend && !trend->drifts && trend->after > trend->before;
    near += trend && !trend->drifts && trend->from >= 242 && trend->from <= 258;
  }
  EXPECT_GE(found, 95);
  EXPECT_GE(near, 90);
}

TEST(Trend, ADriftOfAQuarterIsFoundAndIsNoChange) {
  int found = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    std::vector<double> values = noisy(400, 0.03, 0.5, seed);
    for (size_t i = 0; i < values.size(); ++i) values[i] *= 1 + 0.25 * static_cast<double>(i) / 400;
    const auto trend = trend_of(values);
    found += trend && trend->drifts && trend->after > 1.15 * trend->before;
  }
  EXPECT_GE(found, 95);
}

// It rises for a third of the time and hardly after: two levels fit better than one line, and each of them slopes.
TEST(Trend, ASlopeThatFlattensIsADrift) {
  std::vector<double> values;
  for (int i = 0; i < 320; ++i) values.push_back(20 + 0.6 * std::min(i, 100) + 0.03 * std::max(i - 100, 0));
  const auto trend = trend_of(values);
  ASSERT_TRUE(trend);
  EXPECT_TRUE(trend->drifts);
  EXPECT_GT(trend->after, 1.2 * trend->before);
}

TEST(Trend, AChangeAfterALevelThatRisesALittleIsNone) {
  std::vector<double> values;
  for (int i = 0; i < 400; ++i) values.push_back((i < 200 ? 20 + 0.002 * i : 30) + 0.1 * (i % 7));
  const auto trend = trend_of(values);
  ASSERT_TRUE(trend);
  EXPECT_FALSE(trend->drifts);
  EXPECT_EQ(trend->from, 200u);
}

}  // namespace
}  // namespace stepscope
