#include "analyze/spread.h"

#include <gtest/gtest.h>

namespace stepscope {
namespace {

constexpr double kAlike = 0.4;

// input, forward, backward, optimizer, between the phases
PhaseLevels levels(std::array<double, 5> before, std::array<double, 5> after) {
  constexpr std::array kParts = {Category::kInputWait, Category::kForward, Category::kBackward, Category::kOptimizer,
                                 Category::kUnattributed};
  PhaseLevels result;
  for (size_t i = 0; i < kParts.size(); ++i) {
    result.before_ms[index(kParts[i])] = before[i];
    result.after_ms[index(kParts[i])] = after[i];
  }
  return result;
}

TEST(Spread, AMachineThatSlowsDownIsFeltInEverything) {
  EXPECT_EQ(spread_of(levels({0.5, 4.2, 7.2, 0.3, 0.25}, {0.65, 5.6, 9.2, 0.4, 0.31}), kAlike), Spread::kAll);
  EXPECT_EQ(spread_of(levels({0, 0.31, 0.25, 0.06, 0.1}, {0, 0.44, 0.33, 0.08, 0.15}), kAlike), Spread::kAll);
}

TEST(Spread, OnePhaseIsSome) {
  EXPECT_EQ(spread_of(levels({0.5, 15, 1, 0.3, 0.25}, {0.5, 16.5, 1, 0.3, 0.25}), kAlike), Spread::kSome);
  EXPECT_EQ(spread_of(levels({0.5, 4, 8, 0.3, 0.25}, {0.5, 4, 12, 0.3, 0.25}), kAlike), Spread::kSome);
}

TEST(Spread, ForwardAndBackwardAloneAreCompute) {
  EXPECT_EQ(spread_of(levels({0.6, 5.6, 9.3, 0.4, 0.3}, {0.6, 6.7, 11.4, 0.4, 0.3}), kAlike), Spread::kCompute);
}

TEST(Spread, APartThatWasNotThereIsTheProgram) {
  EXPECT_EQ(spread_of(levels({0.5, 4, 8, 0.3, 0}, {0.65, 5.2, 10.4, 0.4, 3}), kAlike), Spread::kSome);
}

TEST(Spread, WaitingForOthersDoesNotCount) {
  PhaseLevels l = levels({0.5, 4.2, 7.2, 0.3, 0.25}, {0.65, 5.6, 9.2, 0.4, 0.31});
  l.before_ms[index(Category::kStragglerWait)] = 5;
  l.after_ms[index(Category::kStragglerWait)] = 1;
  EXPECT_EQ(spread_of(l, kAlike), Spread::kAll);
}

TEST(Spread, NothingGrewIsSome) {
  EXPECT_EQ(spread_of(levels({1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}), kAlike), Spread::kSome);
  EXPECT_EQ(spread_of({}, kAlike), Spread::kSome);
}

}  // namespace
}  // namespace stepscope
