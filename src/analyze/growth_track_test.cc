#include "analyze/growth_track.h"

#include <gtest/gtest.h>

#include <cmath>

namespace stepscope {
namespace {

constexpr double kMb = 1e6;

// A reading per step of half a second.
template <class Bytes>
GrowthTrack track_of(int steps, Bytes bytes) {
  GrowthTrack t;
  t.by_steps = true;
  for (int i = 0; i < steps; ++i) {
    t.x.push_back(i);
    t.seconds.push_back(0.5 * i);
    t.y.push_back(bytes(i));
  }
  return t;
}

GrowthLimits limits_of(double begin = 0) {
  GrowthLimits limits;
  limits.rule.min_growth = 10 * kMb;
  limits.begin_x = begin;
  limits.least_span = 20;
  limits.new_high_share = 0.5;
  return limits;
}

TEST(GrowthTrack, ALineHasItsRates) {
  const auto v = judge_track(track_of(101, [](int i) { return 500 * kMb + 2 * kMb * i; }), limits_of());
  EXPECT_EQ(v.shape, GrowthShape::kLinear);
  ASSERT_TRUE(v.bytes_per_step);
  EXPECT_NEAR(*v.bytes_per_step, 2 * kMb, 1);
  EXPECT_NEAR(v.bytes_per_s, 4 * kMb, 1);
  EXPECT_EQ(v.first_step, 0);
}

// So much per step for certain; how much per second depends on how long the steps take.
TEST(GrowthTrack, AMachineOfUnevenSpeedMakesTheRatePerSecondUncertainAlone) {
  GrowthTrack t = track_of(200, [](int i) { return 500 * kMb + 2 * kMb * i; });
  double at_s = 0;
  for (int i = 0; i < 200; ++i) t.seconds[static_cast<size_t>(i)] = at_s += 0.5 + 0.4 * std::sin(i / 20.0);
  const auto v = judge_track(t, limits_of());
  ASSERT_EQ(v.shape, GrowthShape::kLinear);
  EXPECT_NEAR(v.per_step.low, 1, 1e-6);
  EXPECT_NEAR(v.per_step.high, 1, 1e-6);
  EXPECT_LT(v.per_s.low, 0.97);
  EXPECT_GT(v.per_s.high, 1.03);
}

TEST(GrowthTrack, StairsMayBeOneMoreOrOneLess) {
  GrowthLimits limits = limits_of();
  const auto v = judge_track(track_of(201, [](int i) { return 500 * kMb + 40 * kMb * (i / 25); }), limits);
  ASSERT_EQ(v.shape, GrowthShape::kStaircase);
  EXPECT_DOUBLE_EQ(v.per_s.low, 1 - 1.0 / v.stairs);
  EXPECT_DOUBLE_EQ(v.per_step.high, 1 + 1.0 / v.stairs);
}

TEST(GrowthTrack, WhatGrowsInWarmUpAloneIsNone) {
  const auto v = judge_track(track_of(101, [](int i) { return 20 * kMb * std::min(i, 10); }), limits_of(10));
  EXPECT_EQ(v.shape, GrowthShape::kFlat);
}

TEST(GrowthTrack, ALeakThatBeginsLateIsFoundInTheNewerPart) {
  const auto v =
      judge_track(track_of(201, [](int i) { return 500 * kMb + 2 * kMb * std::max(0, i - 100); }), limits_of());
  EXPECT_EQ(v.shape, GrowthShape::kLinear);
  EXPECT_NEAR(*v.bytes_per_step, 2 * kMb, 0.1 * kMb);
  EXPECT_NEAR(static_cast<double>(v.first_step), 100, 10);
}

TEST(GrowthTrack, ASawtoothComesBackToItsHeight) {
  const auto v = judge_track(track_of(400, [](int i) { return 500 * kMb + 2 * kMb * (i % 100); }), limits_of());
  EXPECT_NE(v.shape, GrowthShape::kLinear);
  EXPECT_NE(v.shape, GrowthShape::kStaircase);
}

TEST(GrowthTrack, TooShortOrNothingAtAll) {
  EXPECT_EQ(judge_track({}, limits_of()).shape, GrowthShape::kTooShort);
  const auto v = judge_track(track_of(15, [](int i) { return 100 * kMb * i; }), limits_of());
  EXPECT_EQ(v.shape, GrowthShape::kTooShort);
  EXPECT_EQ(judge_track(track_of(15, [](int i) { return 100 * kMb * i; }), limits_of(40)).shape,
            GrowthShape::kTooShort);
}

}  // namespace
}  // namespace stepscope
