#include "analyze/spike_track.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace stepscope {
namespace {

constexpr uint64_t kSteps = 20'000;

// A noise of which neighbouring steps are alike: correlation rho.
template <class Level>
SpikeTrack track(double sigma, double rho, uint64_t seed, Level level, uint64_t steps = kSteps) {
  SpikeTrack out({});
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  double z = 0;
  for (uint64_t step = 0; step < steps; ++step) {
    z = rho * z + std::sqrt(1 - rho * rho) * normal(random);
    out.add(step, level(step) * std::exp(sigma * z));
  }
  return out;
}

TEST(SpikeTrack, NoiseIsNoSpikeHoweverHeavyOrAlike) {
  uint64_t spikes = 0;
  for (const double sigma : {0.02, 0.3, 1.0})
    for (const double rho : {0.0, 0.5, 0.9, 0.99, 0.999})
      for (uint64_t seed = 1; seed <= 2; ++seed)
        spikes += track(sigma, rho, seed, [](uint64_t) { return 2.0; }).spikes();
  EXPECT_LE(spikes, 1u);  // of 600,000 steps
}

TEST(SpikeTrack, FallingAndSlowlyRisingLossesAreNone) {
  EXPECT_EQ(track(0.05, 0.5, 1, [](uint64_t s) { return 0.5 + 4 * std::exp(-static_cast<double>(s) / 2000); }).spikes(),
            0u);
  EXPECT_EQ(track(0.05, 0.5, 2, [](uint64_t s) { return 1 + static_cast<double>(s) / 1000; }).spikes(), 0u);
}

TEST(SpikeTrack, FindsWhereItBeganAndThatItCameBack) {
  const SpikeTrack t = track(0.05, 0.5, 3, [](uint64_t s) { return s >= 1003 && s < 1040 ? 5.0 : 2.0; }, 2000);
  EXPECT_EQ(t.spikes(), 1u);
  EXPECT_NEAR(static_cast<double>(t.newest().first_step), 1003, 5);
  EXPECT_NEAR(static_cast<double>(t.newest().last_step), 1040, 6);
  EXPECT_TRUE(t.newest().recovered);
  EXPECT_NEAR(t.newest().usual, 2, 0.2);
  EXPECT_NEAR(t.newest().highest, 5.5, 1);
}

TEST(SpikeTrack, ALevelThatStaysIsTheNewUsualOne) {
  const SpikeTrack t = track(0.05, 0.5, 4, [](uint64_t s) { return s >= 1000 ? 5.0 : 2.0; }, 4000);
  EXPECT_EQ(t.spikes(), 1u);
  EXPECT_TRUE(t.newest().settled);
  EXPECT_FALSE(t.newest().recovered);
}

TEST(SpikeTrack, OneBadBatchIsNone) {
  EXPECT_EQ(track(0.05, 0, 5, [](uint64_t s) { return s % 500 == 499 ? 50.0 : 2.0; }).spikes(), 0u);
}

TEST(SpikeTrack, NegativeLossesAreComparedAsTheyAre) {
  SpikeTrack t({});
  std::mt19937_64 random(6);
  std::normal_distribution<double> normal;
  for (uint64_t step = 0; step < 600; ++step) t.add(step, (step >= 500 ? 30 : -5) + normal(random));
  EXPECT_EQ(t.spikes(), 1u);
  EXPECT_NEAR(static_cast<double>(t.newest().first_step), 500, 5);
}

}  // namespace
}  // namespace stepscope
