// Losses, norms and schedulers become figures of the step they belong to.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "align/rank_step.h"
#include "training_loop.h"

namespace stepscope {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

void tell(Loop& loop, ScalarOf what, double value) {
  loop.mark(Kind::kScalar, static_cast<uint64_t>(what), std::bit_cast<uint64_t>(value));
}

void step(Loop& loop, double loss) {
  loop.fetch().forward();
  tell(loop, ScalarOf::kLoss, loss);
  loop.backward().optimizer();
}

TEST(Numbers, ALossIsThatOfTheBackwardWhereTheProgramLogsNone) {
  Loop loop;
  for (int i = 0; i < 5; ++i) {
    step(loop, i == 3 ? kNan : 2.0 - i * 0.1);
    tell(loop, ScalarOf::kGradNorm, 7);
  }
  const auto steps = loop.finish();
  ASSERT_EQ(steps.size(), 5u);
  EXPECT_EQ(steps[1].loss, 1.9);
  EXPECT_EQ(steps[1].grad_norm, 7);
  EXPECT_EQ(steps[1].numerics, kLossSeen);
  EXPECT_TRUE(std::isnan(steps[3].loss.value()));
  EXPECT_EQ(steps[3].numerics, kLossSeen | kLossNotFinite);
}

TEST(Numbers, OneOfSeveralBackwardsThatIsNotFiniteMarksTheStep) {
  Loop loop;
  for (int i = 0; i < 4; ++i) {
    loop.fetch().forward();
    tell(loop, ScalarOf::kLoss, i == 2 ? kNan : 1);
    loop.backward();
    step(loop, 3);
  }
  const auto steps = loop.finish();
  ASSERT_EQ(steps.size(), 4u);
  EXPECT_EQ(steps[2].numerics & kLossNotFinite, kLossNotFinite);
  EXPECT_EQ(steps[2].loss, 3);
  EXPECT_EQ(steps[1].numerics & kLossNotFinite, 0u);
}

TEST(Numbers, ALoggedLossCountsButAnEvaluationsNanIsNotTrainings) {
  Loop loop;
  for (int i = 0; i < 4; ++i) {
    step(loop, 1);
    loop.value("loss", i == 1 ? kNan : 5);
  }
  for (const RankStep& s : loop.finish()) {
    EXPECT_EQ(s.numerics & kLossNotFinite, 0u) << s.step;
    if (s.step == 3) EXPECT_EQ(s.loss, 5);
  }
}

TEST(Numbers, WithoutAnyBackwardTheLoggedLossTells) {
  Loop loop;
  for (int i = 0; i < 4; ++i) {
    loop.fetch().forward().backward();
    loop.value("loss", i == 1 ? kNan : 5);
    loop.optimizer();
  }
  const auto steps = loop.finish();
  ASSERT_EQ(steps.size(), 4u);
  EXPECT_EQ(steps[1].numerics, kLossSeen | kLossNotFinite);
  EXPECT_EQ(steps[2].numerics, kLossSeen);
}

TEST(Numbers, AScaledLossIsNotTheLoss) {
  for (const bool on : {true, false}) {
    Loop loop;
    for (int i = 0; i < 3; ++i) {
      loop.fetch().forward();
      tell(loop, ScalarOf::kLoss, 65536);
      loop.backward().begin(Kind::kScalerStep, 1).optimizer(1).end(Kind::kScalerStep, 1, on ? 0 : kScalerOff);
    }
    const auto steps = loop.finish();
    ASSERT_EQ(steps.size(), 3u);
    EXPECT_EQ(steps[1].loss.has_value(), !on);
    EXPECT_EQ(steps[1].numerics, kLossSeen | (on ? kLossScaled : 0u));
    EXPECT_EQ(steps[1].optimizer_steps, 1u);
  }
}

TEST(Numbers, ANumberThatADeviceTellsLaterBelongsToTheStepItWasComputedIn) {
  Loop loop;
  uint64_t computed_ns = 0;
  for (int i = 0; i < 3; ++i) {
    loop.fetch().forward();
    if (i == 1) computed_ns = loop.t_;
    loop.backward().optimizer();
    // The candidate for the end of step 1 is there, and it is not closed yet.
    if (i != 1) continue;
    loop.pass(100).fetch();
    loop.builder.push({loop.t_, pack_kind(Kind::kScalar, Edge::kMark), 0, 99, static_cast<uint64_t>(ScalarOf::kLoss),
                       std::bit_cast<uint64_t>(kNan), computed_ns, 0});
  }
  const auto steps = loop.finish();
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_EQ(steps[0].numerics, 0u);
  EXPECT_EQ(steps[1].numerics, kLossSeen | kLossNotFinite);
  EXPECT_EQ(steps[2].numerics, 0u);
}

TEST(Numbers, ASchedulerCountsAsTheOneThatHasGoneFarthest) {
  Loop loop;
  for (const uint64_t id : {11, 12, 13}) loop.mark(Kind::kScheduler, id, 1);  // made
  for (uint64_t i = 0; i < 4; ++i) {
    step(loop, 1);
    loop.optimizer(2);
    for (const uint64_t id : {11, 12, 13}) loop.mark(Kind::kScheduler, id, 2 + i);
  }
  uint32_t advances = 0;
  for (const RankStep& s : loop.finish()) {
    EXPECT_EQ(s.optimizer_steps, 1u) << s.step;
    EXPECT_EQ(s.numerics & kSchedulerFirst, 0u);
    advances += s.scheduler_advances;
  }
  EXPECT_EQ(advances, 3u);  // the fourth comes after the last step
}

TEST(Numbers, ASchedulerBeforeTheFirstOptimizerStepIsMarkedButNotOneThatIsWoundForward) {
  for (const bool wound : {true, false}) {
    Loop loop;
    loop.mark(Kind::kScheduler, 11, 1);
    if (wound) loop.mark(Kind::kScheduler, 11, 2);
    for (uint64_t i = 0; i < 3; ++i) {
      loop.fetch().forward().backward();
      if (!wound) loop.mark(Kind::kScheduler, 11, 2 + i);
      loop.optimizer();
      if (wound) loop.mark(Kind::kScheduler, 11, 3 + i);
    }
    const auto steps = loop.finish();
    ASSERT_EQ(steps.size(), 3u);
    EXPECT_EQ(steps[0].numerics, wound ? 0u : kSchedulerFirst);
    EXPECT_EQ(steps[1].numerics, 0u);
  }
}

}  // namespace
}  // namespace stepscope
