#include "analyze/busy_ranks.h"

#include <gtest/gtest.h>

namespace stepscope {
namespace {

// 0 to 10 fully, 5 to 20 by half: the mean from 0 to 10 is (10 + 5/2) / 10, from 5 to 15 (5 + 10/2) / 10.
TEST(BusyRanks, MeansOverSpans) {
  BusyRanks busy;
  busy.add(0, 10, 1);
  busy.add(5, 20, 0.5);
  busy.add(7, 7, 1);
  busy.settle();
  EXPECT_NEAR(busy.mean(0, 10), 1.25, 1e-12);
  EXPECT_NEAR(busy.mean(5, 15), 1.0, 1e-12);
  EXPECT_NEAR(busy.mean(-10, 0), 0, 1e-12);
  EXPECT_NEAR(busy.mean(15, 25), 0.25, 1e-12);
  EXPECT_EQ(busy.mean(3, 3), 0);
}

// Alone for 5 ms, then beside one for 5 ms: work of 5 + 5/1.5 ms is done in 10.
TEST(BusyRanks, ThePaceIsThatOfEachMoment) {
  BusyRanks busy;
  busy.add(0, 10, 1);
  busy.add(5, 20, 1);
  busy.settle();
  EXPECT_NEAR(busy.mean_pace(0, 10, 1, 0.5), (5 + 5 / 1.5) / 10, 1e-12);
  EXPECT_NEAR(busy.mean_pace(0, 10, 1, 0), 1, 1e-12);
  EXPECT_NEAR(busy.mean_pace(10, 30, 1, 0.5), 1, 1e-12);
  EXPECT_NEAR(busy.mean_pace(-5, 5, 0, 1), (5 + 5.0 / 2) / 10, 1e-12);
}

TEST(BusyRanks, NobodyIsBusy) {
  BusyRanks busy;
  busy.settle();
  EXPECT_EQ(busy.mean(0, 1), 0);
  EXPECT_EQ(busy.mean_pace(0, 1, 1, 1), 1);
}

}  // namespace
}  // namespace stepscope
