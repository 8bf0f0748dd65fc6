#include "analyze/correlation.h"

#include <gtest/gtest.h>

namespace stepscope {
namespace {

TEST(Correlation, ByHand) {
  EXPECT_DOUBLE_EQ(correlation({1, 2, 3}, {10, 20, 30}), 1);
  EXPECT_DOUBLE_EQ(correlation({1, 2, 3}, {3, 2, 1}), -1);
  EXPECT_DOUBLE_EQ(correlation({1, 2, 3, 4}, {1, 3, 2, 4}), 0.8);
  EXPECT_EQ(correlation({1, 2, 3}, {5, 5, 5}), 0);
  EXPECT_EQ(correlation({}, {}), 0);
}

}  // namespace
}  // namespace stepscope
