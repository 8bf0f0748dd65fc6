#include "sampler/sample_pace.h"

#include <gtest/gtest.h>

namespace stepscope {
namespace {

constexpr uint64_t kS = 1'000'000'000;

TEST(SamplePace, TheFirstSampleWhichOpensEverythingSaysNothing) {
  SamplePace pace(10);
  pace.add(100e6, true);
  EXPECT_EQ(pace.interval_ns(kS, 4), kS);
  pace.add(1e6, false);
  // (1 + 99 / 10) ms per sample of 4 devices, in 0.3 % of a core
  EXPECT_NEAR(static_cast<double>(pace.interval_ns(kS, 4)), 4 * 10.9e6 / 0.003, 1e3);
}

TEST(SamplePace, FewCheapDevicesAreSampledAsOftenAsAsked) {
  SamplePace pace(10);
  pace.add(3e6, true);
  pace.add(0.2e6, false);
  EXPECT_EQ(pace.interval_ns(kS, 2), kS);
}

TEST(SamplePace, ManyDevicesStretchTheIntervalUpToALimit) {
  SamplePace pace(10);
  pace.add(1.5e6, false);
  EXPECT_NEAR(static_cast<double>(pace.interval_ns(kS, 8)), 4e9, 1e3);
  EXPECT_EQ(pace.interval_ns(kS, 1'000), static_cast<uint64_t>(SamplePace::kMaxIntervalNs));
}

TEST(SamplePace, ForgetsASlowStretchOfTheDriver) {
  SamplePace pace(10);
  pace.add(50e6, false);
  for (int i = 0; i < 60; ++i) pace.add(0.5e6, false);
  EXPECT_EQ(pace.interval_ns(kS, 2), kS);
}

}  // namespace
}  // namespace stepscope
