// The step rule on the loops that torch programs are written in.
#include "align/step_builder.h"

#include <gtest/gtest.h>

#include <vector>

#include "training_loop.h"

namespace stepscope {
namespace {

TEST(StepRule, PlainLoop) {
  Loop l;
  for (int i = 0; i < 16; ++i) l.fetch().forward().backward().optimizer();
  const auto steps = l.finish();
  EXPECT_EQ(steps.size(), 16u);
  expect_closed_budget(steps);
}

TEST(StepRule, AccumulationWithRemainder) {
  Loop l;
  for (int i = 0; i < 16; ++i) {
    l.fetch().forward().backward();
    if (i % 3 == 2 || i == 15) l.optimizer();
  }
  EXPECT_EQ(l.finish().size(), 6u);
}

TEST(StepRule, GanWithTwoOptimizers) {
  Loop l;
  for (int i = 0; i < 16; ++i) l.fetch().forward(1).backward().optimizer(1).forward(2).backward().optimizer(2);
  const auto steps = l.finish();
  EXPECT_EQ(steps.size(), 16u);
  expect_closed_budget(steps);
}

TEST(StepRule, CriticFiveToOneWithGradientPenalty) {
  // The penalty's autograd.grad is no boundary; the generator steps every fifth critic step.
  Loop l;
  int expected = 0;
  for (int i = 0; i < 16; ++i) {
    l.fetch().forward(1).backward(false).backward().optimizer(1);
    ++expected;
    if (i % 5 == 4) l.forward(2).backward().optimizer(2);
  }
  EXPECT_EQ(l.finish().size(), static_cast<size_t>(expected));
}

// A new optimizer per stage, alone and as a pair, and one that came after long pretraining of another in the same step.
TEST(StepRule, AnOptimizerThatReplacesAnotherOne) {
  Loop l;
  for (int stage = 1; stage <= 3; ++stage)
    for (int i = 0; i < 5; ++i) l.fetch().forward().backward().optimizer(static_cast<uint64_t>(stage));
  for (uint64_t stage = 1; stage <= 2; ++stage)
    for (int i = 0; i < 4; ++i)
      l.fetch().forward().backward().optimizer(10 * stage).forward().backward().optimizer(10 * stage + 1);
  const auto steps = l.finish();
  ASSERT_EQ(steps.size(), 15u + 8u);
  expect_closed_budget(steps);
  for (size_t i = 0; i < 15; ++i) {
    EXPECT_EQ(steps[i].wall_ns(), steps[1].wall_ns() - (i == 0 ? 50'000 : 0)) << i;
    EXPECT_EQ(steps[i].signature == steps[0].signature, i < 5) << i;
  }
}

// Numbers of optimizers are addresses: one that is gone gives its own to the next but one. A new one per fold or epoch.
TEST(StepRule, OptimizersThatTakeTheNumberOfAnOlderOne) {
  for (const std::vector<uint64_t>& numbers :
       {std::vector<uint64_t>{1, 2, 1, 2, 1}, {1, 2, 2, 1, 1}, {1, 2, 3, 1, 2}}) {
    Loop l;
    for (uint64_t number : numbers)
      for (int i = 0; i < 5; ++i) l.fetch().forward().backward().optimizer(number);
    const auto steps = l.finish();
    EXPECT_EQ(steps.size(), 25u);
    expect_closed_budget(steps);
  }
}

// A generator that steps with every fifth step of the critic comes again and again, and never makes a step of its own.
TEST(StepRule, AnOptimizerThatComesNowAndThen) {
  Loop l;
  for (int i = 0; i < 40; ++i) {
    l.fetch().forward(1).backward().optimizer(1);
    if (i % 5 == 4) l.forward(2).backward().optimizer(2);
  }
  const auto steps = l.finish();
  EXPECT_EQ(steps.size(), 40u);
  expect_closed_budget(steps);
}

TEST(StepRule, APretrainedOptimizerIsJoinedByASecondOne) {
  Loop l;
  for (int i = 0; i < 5; ++i) l.fetch().forward(1).backward().optimizer(1);
  for (int i = 0; i < 4; ++i) l.fetch().forward(1).backward().optimizer(1).forward(2).backward().optimizer(2);
  const auto steps = l.finish();
  ASSERT_EQ(steps.size(), 9u);
  expect_closed_budget(steps);
  EXPECT_EQ(steps[5].signature, steps[6].signature);
}

// The run ends before it is known what the newcomer was.
TEST(StepRule, AHeldBoundaryAtTheEnd) {
  Loop l;
  for (int i = 0; i < 5; ++i) l.fetch().forward().backward().optimizer(1);
  l.fetch().forward().backward().optimizer(2);
  const auto steps = l.finish();
  ASSERT_EQ(steps.size(), 5u);
  expect_closed_budget(steps);
}

TEST(StepRule, FunctionalGradientsWithAnOptimizer) {
  Loop l;
  for (int i = 0; i < 16; ++i) l.fetch().backward(false).optimizer();
  EXPECT_EQ(l.finish().size(), 16u);
}

TEST(StepRule, LbfgsClosuresRunInsideTheOptimizer) {
  Loop l;
  for (int i = 0; i < 8; ++i) {
    l.fetch().begin(Kind::kOptimizer, 1);
    for (int k = 0; k < 4; ++k) l.forward().backward();
    l.pass(100).end(Kind::kOptimizer, 1).pass(20);
  }
  const auto steps = l.finish();
  EXPECT_EQ(steps.size(), 8u);
  expect_closed_budget(steps);
  EXPECT_EQ(steps[3].own[index(Category::kBackward)], 4 * 2'005'000);
  EXPECT_EQ(steps[3].own[index(Category::kForward)], 4 * 1'010'000);  // the loss lies between forward and backward
  EXPECT_EQ(steps[3].own[index(Category::kOptimizer)], 100'000);
}

TEST(StepRule, SkippedScalerStepsCount) {
  Loop l;
  for (int i = 0; i < 16; ++i) {
    l.fetch().forward().backward().begin(Kind::kScalerStep, 1);
    if (i != 3 && i != 4) l.span(Kind::kOptimizer, 300, 1);
    l.end(Kind::kScalerStep, 1).pass(30);
  }
  const auto steps = l.finish();
  ASSERT_EQ(steps.size(), 16u);
  for (int i = 0; i < 16; ++i) EXPECT_EQ((steps[i].tags & kTagSkipped) != 0, i == 3 || i == 4) << i;
}

TEST(StepRule, OptimizerInBackward) {
  Loop l;
  for (int i = 0; i < 16; ++i) {
    l.fetch().forward().begin(Kind::kBackward, 1);
    for (uint64_t p = 1; p <= 4; ++p) l.pass(500).span(Kind::kOptimizer, 50, p);
    l.end(Kind::kBackward, 1).pass(30);
  }
  const auto steps = l.finish();
  EXPECT_EQ(steps.size(), 16u);
  expect_closed_budget(steps);
}

TEST(StepRule, OptimizerPerSubGroup) {
  Loop l;
  for (int i = 0; i < 16; ++i) {
    l.fetch().forward().backward();
    for (uint64_t g = 0; g < 4; ++g) l.optimizer(3);  // one optimizer object, stepped per sub-group
  }
  EXPECT_EQ(l.finish().size(), 16u);
}

TEST(StepRule, HandWrittenSgdFallsBackToBackwards) {
  Loop l;
  for (int i = 0; i < 100; ++i) l.fetch().forward().backward().pass(400);
  const auto steps = l.finish();
  EXPECT_EQ(steps.size(), 100u);
  EXPECT_TRUE(steps[0].tags & kTagInferred);
  EXPECT_TRUE(steps[99].tags & kTagInferred);
  expect_closed_budget(steps);
}

TEST(StepRule, FewBackwardsAndNoOptimizer) {
  Loop l;
  for (int i = 0; i < 5; ++i) l.fetch().forward().backward();
  EXPECT_EQ(l.finish().size(), 5u);
}

TEST(StepRule, LongAccumulationIsNotAFallback) {
  Loop l;
  for (int i = 0; i < 32 * 3; ++i) {
    l.fetch().forward().backward();
    if (i % 32 == 31) l.optimizer();
  }
  const auto steps = l.finish();
  EXPECT_EQ(steps.size(), 3u);
  expect_closed_budget(steps);
}

TEST(StepRule, TraceStepIsExact) {
  // The logger after the optimizer belongs to this step, not to the next.
  Loop l;
  for (int i = 0; i < 10; ++i)
    l.fetch().begin(Kind::kStep).forward().backward().optimizer().pass(5000).end(Kind::kStep).pass(100);
  const auto steps = l.finish();
  ASSERT_EQ(steps.size(), 10u);
  expect_closed_budget(steps);
  EXPECT_GE(steps[0].own[index(Category::kUnattributed)], 5'000'000);
}

TEST(StepRule, TraceStepWithoutOptimizerJoinsTheNext) {
  Loop l;
  for (int i = 0; i < 12; ++i) {
    l.begin(Kind::kStep).fetch().forward().backward();
    if (i % 4 == 3) l.optimizer();
    l.end(Kind::kStep);
  }
  EXPECT_EQ(l.finish().size(), 3u + 3u);  // before the first optimizer is seen, every exit ends a step
}

}  // namespace
}  // namespace stepscope
