#include "analyze/onset.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace stepscope {
namespace {

size_t onset(const std::vector<double>& values, double threshold, size_t late = 0) {
  return onset_index(values.size(), threshold, [&](size_t i) { return values[i]; }, late);
}

std::vector<double> level(size_t low, size_t high, double ms = 10) {
  std::vector<double> values(low, 0.0);
  values.insert(values.end(), high, ms);
  return values;
}

TEST(Onset, OfALevelThatRisesOnce) { EXPECT_EQ(onset(level(20, 20), 4), 20u); }

TEST(Onset, FromTheStartIsTheFirstValue) {
  EXPECT_EQ(onset(level(0, 20), 4), 0u);
  EXPECT_EQ(onset(level(2, 20), 4), 0u);  // all high: one step to the next, and two such rounds are the start
  EXPECT_EQ(onset(level(3, 20), 4), 3u);
}

TEST(Onset, WhatWasLoadedAheadHidesTheFirstSteps) {
  EXPECT_EQ(onset(level(9, 20), 4), 9u);
  EXPECT_EQ(onset(level(9, 20), 4, 6), 9u);  // 2 rounds of one step, and 6
  EXPECT_EQ(onset(level(9, 20), 4, 7), 0u);
}

// 1.5 times the threshold on average over eight values: 6 of 8 at 10 are 7.5 > 6, 4 of 8 would be 5.
TEST(Onset, AHandfulOfHighValuesInARowIsChance) {
  std::vector<double> values(40, 0.0);
  for (size_t i = 10; i < 14; ++i) values[i] = 10;
  for (size_t i = 30; i < 40; ++i) values[i] = 10;
  EXPECT_EQ(onset(values, 4), 30u);
  for (size_t i = 14; i < 16; ++i) values[i] = 10;
  EXPECT_EQ(onset(values, 4), 10u);
}

TEST(Onset, OneHighValueIsNone) {
  std::vector<double> values(40, 0.0);
  values[10] = 1000;  // counted as 8 thresholds: the mean of eight is one threshold, not more
  values[25] = values[29] = values[33] = values[37] = 40;
  EXPECT_EQ(onset(values, 4), 25u);
}

// Every 4th step high by 32: 32 · 2 / 8 = 8 > 4; the first may come anywhere in the first round, and one more.
TEST(Onset, ABurstEverySoManySteps) {
  const auto burst = [](size_t first) {
    std::vector<double> values(80, 0.0);
    for (size_t i = first; i < values.size(); i += 4) values[i] = 32;
    return values;
  };
  EXPECT_EQ(onset(burst(3), 4), 0u);
  EXPECT_EQ(onset(burst(8), 4), 0u);
  EXPECT_EQ(onset(burst(12), 4), 12u);
}

TEST(Onset, ValuesThatAreNotKnownAreNoWitnesses) {
  std::vector<double> values = level(20, 20);
  for (size_t i = 21; i < 26; ++i) values[i] = std::nan("");
  EXPECT_EQ(onset(values, 4), 20u);
}

TEST(Onset, NothingHighOrNothingAtAll) {
  EXPECT_EQ(onset(level(20, 0), 4), 0u);
  EXPECT_EQ(onset({}, 4), 0u);
}

}  // namespace
}  // namespace stepscope
