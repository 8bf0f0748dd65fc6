#include "recorder/gpu_clock.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

namespace stepscope::recorder {
namespace {

// A GPU whose clock runs `ppm` faster than the host's and started at another time.
struct World {
  double ppm;
  uint64_t host_zero = 5'000'000'000;
  uint64_t host(int64_t gpu) const {
    return host_zero + static_cast<uint64_t>(static_cast<double>(gpu) / (1 + ppm * 1e-6));
  }
};

TEST(GpuClock, IsNotReadyBeforeTheFirstBracket) {
  GpuClock clock;
  EXPECT_FALSE(clock.ready());
  EXPECT_EQ(clock.to_host(123), 0u);
  EXPECT_FALSE(clock.calibrate(0, 100, 50));  // upside down
  EXPECT_TRUE(clock.calibrate(0, 50, 100));
  EXPECT_EQ(clock.to_host(10), 85u);
  EXPECT_EQ(clock.half_bracket_ns(), 25u);
}

TEST(GpuClock, FollowsADriftingClockBetweenCalibrations) {
  const World world{.ppm = 40};
  GpuClock clock;
  int64_t gpu = 0;
  for (const int64_t gap_ms : {0, 500, 500, 2000, 2000, 10'000, 10'000}) {
    gpu += gap_ms * 1'000'000;
    ASSERT_TRUE(clock.calibrate(gpu, world.host(gpu) - 3'000, world.host(gpu) + 3'000));
  }
  EXPECT_NEAR(clock.drift_ppm(), -40, 1.0);
  const int64_t later = gpu + 10'000'000'000;  // just before the next calibration; uncorrected: 400 us off
  EXPECT_NEAR(static_cast<double>(clock.to_host(later)), static_cast<double>(world.host(later)), 8'000);
}

TEST(GpuClock, RefusesAWideBracketUntilTheOldOneIsOld) {
  GpuClock clock;
  ASSERT_TRUE(clock.calibrate(0, 1000, 7000));
  EXPECT_FALSE(clock.calibrate(1'000'000, 1'001'000, 1'101'000));  // half = 50 us against 3 us known
  EXPECT_EQ(clock.half_bracket_ns(), 3000u);
  // Half an hour later the drift may be anything: then a wide one is better than none.
  const int64_t hour = 1'800'000'000'000;
  EXPECT_TRUE(clock.calibrate(hour, static_cast<uint64_t>(hour), static_cast<uint64_t>(hour) + 1'000'000));
}

TEST(GpuClock, AWideFirstBracketDoesNotMakeARate) {
  GpuClock clock;
  ASSERT_TRUE(clock.calibrate(0, 0, 2'000'000));
  ASSERT_TRUE(clock.calibrate(500'000'000, 500'000'000, 500'004'000));
  EXPECT_EQ(clock.drift_ppm(), 0);
}

RC_GTEST_PROP(GpuClock, IsMonotonicAndNeverOffByMoreThanItsBrackets, ()) {
  const World world{.ppm = static_cast<double>(*rc::gen::inRange(-200, 200))};
  GpuClock clock;
  int64_t gpu = 0;
  for (int i = 0; i < 12; ++i) {
    gpu += *rc::gen::inRange<int64_t>(500'000'000, 10'000'000'000);
    const auto lo = *rc::gen::inRange<uint64_t>(0, 5'000), hi = *rc::gen::inRange<uint64_t>(0, 5'000);
    clock.calibrate(gpu, world.host(gpu) - lo, world.host(gpu) + hi);
  }
  uint64_t before = 0;
  for (int64_t t = gpu; t < gpu + 1'000'000'000; t += 50'000'000) {
    const uint64_t at = clock.to_host(t);
    RC_ASSERT(at > before);
    before = at;
    // Half a bracket now, the same again for the rate over the second that follows.
    RC_ASSERT(std::fabs(static_cast<double>(at) - static_cast<double>(world.host(t))) < 25'000);
  }
}

TEST(GpuAxis, KeepsItsPrecisionByMovingTheReference) {
  // An hour of events 100 ms apart, distances rounded to float as the driver does.
  GpuAxis axis;
  int64_t truth = 0, reference = 0, worst = 0;
  for (int i = 0; i < 36'000; ++i) {
    truth += 100'000'137;
    const int64_t found = axis.at(static_cast<float>(static_cast<double>(truth - reference) * 1e-6));
    worst = std::max<int64_t>(worst, std::abs(found - truth));
    if (axis.wants_rebase(found)) {
      axis.rebase(found);
      reference = truth;
    }
  }
  EXPECT_LT(worst, 100'000);  // random steps of 0.1 us, 880 of them; without re-basing 125 us from rounding alone
}

TEST(GpuAxis, TellsEventsBeforeTheReference) {
  GpuAxis axis;
  axis.rebase(5'000'000'000);
  EXPECT_EQ(axis.at(-1.5f), 4'998'500'000);
  EXPECT_FALSE(axis.wants_rebase(4'998'500'000));
}

}  // namespace
}  // namespace stepscope::recorder
