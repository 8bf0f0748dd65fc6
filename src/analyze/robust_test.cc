#include "analyze/robust.h"

#include <gtest/gtest.h>

namespace stepscope {
namespace {

TEST(Robust, QuantilesLieOnTheLineBetweenOrderStatistics) {
  EXPECT_DOUBLE_EQ(quantile({4, 1, 3, 2}, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(quantile({4, 1, 3, 2}, 0.9), 3.7);  // place 2.7 of 0..3
  EXPECT_DOUBLE_EQ(quantile({4, 1, 3, 2}, 1), 4);
  EXPECT_DOUBLE_EQ(quantile({7}, 0.3), 7);
}

TEST(Robust, TheLowerMedianIsOneOfTheValues) {
  EXPECT_DOUBLE_EQ(median({1, 9}), 5);
  EXPECT_DOUBLE_EQ(lower_median({9, 1}), 1);
  EXPECT_DOUBLE_EQ(lower_median({9, 1, 5}), 5);
  EXPECT_DOUBLE_EQ(lower_median({4, 3, 2, 1}), 2);
}

// Median 2, distances 1 1 0 0 2 4 7, their median 1.
TEST(Robust, SpreadIgnoresWhatStandsOut) { EXPECT_DOUBLE_EQ(mad_sigma({1, 1, 2, 2, 4, 6, 9}), 1.4826); }

TEST(Robust, NothingIsNotANumber) {
  EXPECT_TRUE(std::isnan(median({})));
  EXPECT_TRUE(std::isnan(lower_median({})));
  EXPECT_TRUE(std::isnan(mad_sigma({})));
  EXPECT_TRUE(std::isnan(mean({})));
  EXPECT_DOUBLE_EQ(mean({1, 2, 6}), 3);
}

}  // namespace
}  // namespace stepscope
