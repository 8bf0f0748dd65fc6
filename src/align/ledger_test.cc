// The ledger's promise: every nanosecond of a step is somewhere, and where people expect it.
#include "align/step_builder.h"

#include <gtest/gtest.h>

#include "training_loop.h"

namespace stepscope {
namespace {

TEST(Ledger, TailOfBackwardIsAStallOnlyWhereOthersAreWaitedFor) {
  for (const bool distributed : {false, true}) {
    Loop l;
    l.builder.life().world_size = distributed ? 2 : 1;
    for (int i = 0; i < 3; ++i) {
      l.fetch().forward().begin(Kind::kBackward, 1).pass(2000);
      if (distributed) l.mark(Kind::kCollective, 77, static_cast<uint64_t>(i));
      l.mark(Kind::kBackwardOwn).pass(700).end(Kind::kBackward, 1).optimizer();
    }
    const auto steps = l.finish();
    ASSERT_EQ(steps.size(), 3u);
    EXPECT_EQ(steps[1].stall_ns(), distributed ? 700'000 : 0);
    EXPECT_EQ(steps[1].own[index(Category::kBackward)], distributed ? 2'000'000 : 2'700'000);
    if (distributed) EXPECT_EQ(steps[1].stalls[0].sequence, 1u);
    expect_closed_budget(steps);
  }
}

TEST(Ledger, ValidationIsNotMixedIn) {
  Loop l;
  for (int i = 0; i < 20; ++i) {
    l.fetch(1).forward().backward().optimizer();
    if (i % 10 == 9)
      for (int k = 0; k < 5; ++k) l.fetch(2).forward(1, false).pass(40);
  }
  const auto steps = l.finish();
  ASSERT_EQ(steps.size(), 20u);
  // 5 × (fetch 100 + forward 1000 + 10 + 40), less the step's own gap of 50 us, which lies before the first fetch.
  EXPECT_NEAR(static_cast<double>(steps[10].own[index(Category::kValidation)]), 5 * 1'150'000, 120'000);
  EXPECT_EQ(steps[10].own[index(Category::kInputWait)], 100'000);
  EXPECT_TRUE(steps[10].tags & kTagValidation);
  EXPECT_FALSE(steps[5].tags & kTagValidation);
  expect_closed_budget(steps);
}

// eval() without no_grad, on batches of another loader and then of the training's own.
TEST(Ledger, WorkOnABatchBeforeTheFirstEvaluationIsEvaluation) {
  Loop l;
  for (int i = 0; i < 3; ++i) {
    l.fetch(1).pass(700).forward().backward().optimizer();
    if (i > 0) l.fetch(2).pass(20'000).forward(1, false);
  }
  const auto steps = l.finish();
  const auto own_ms = [&](int step, Category c) { return 1e-6 * static_cast<double>(steps[step].own[index(c)]); };
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_NEAR(own_ms(2, Category::kValidation), 20 + 0.1 + 1, 0.2);  // with its fetch and forward
  EXPECT_LT(own_ms(2, Category::kUnattributed), 1);                  // 0.7 ms on a training batch
  EXPECT_GT(own_ms(2, Category::kUnattributed), 0.6);
}

TEST(Ledger, EvaluationWithGradientsIsToldByTheMode) {
  Loop l;
  for (int epoch = 0; epoch < 3; ++epoch) {
    for (int i = 0; i < 4; ++i) l.fetch(1).forward().backward().optimizer();
    for (int i = 0; i < 5; ++i) l.fetch(epoch == 1 ? 1 : 2).span(Kind::kForward, 1000, 1, kForwardGrad).pass(10);
  }
  l.fetch(1).forward().backward().optimizer();
  const auto steps = l.finish();
  ASSERT_EQ(steps.size(), 13u);
  expect_closed_budget(steps);
  for (size_t i = 0; i < steps.size(); ++i) {
    const bool after_evaluation = i && i % 4 == 0;
    EXPECT_EQ(steps[i].own[index(Category::kForward)], 1'010'000) << i;
    EXPECT_GE(steps[i].own[index(Category::kValidation)], after_evaluation ? 5'000'000 : 0) << i;
    EXPECT_EQ((steps[i].tags & kTagValidation) != 0, after_evaluation) << i;
  }
}

// Frozen batch norms: the whole training runs in eval() mode, or a second module does.
TEST(Ledger, TrainingInEvalModeIsTraining) {
  Loop l;
  for (int i = 0; i < 6; ++i) l.fetch().span(Kind::kForward, 1000, 1, kForwardGrad).pass(10).backward().optimizer();
  for (int i = 0; i < 6; ++i) {  // unfrozen, then an attack in eval() mode before each step
    l.fetch().forward(2).span(Kind::kForward, 500, 3, kForwardGrad).backward().optimizer();
    l.forward(2).span(Kind::kForward, 500, 2, kForwardGrad).pass(10).backward(false);
  }
  const auto steps = l.finish();
  expect_closed_budget(steps);
  for (const RankStep& s : steps) EXPECT_LT(s.own[index(Category::kValidation)], 100'000) << s.step;
}

TEST(Ledger, TeacherForwardIsForward) {
  Loop l;
  for (int i = 0; i < 10; ++i) l.fetch(1).forward(2, false).forward(1).backward().optimizer();
  const auto steps = l.finish();
  EXPECT_EQ(steps[5].own[index(Category::kValidation)], 0);
  EXPECT_GE(steps[5].own[index(Category::kForward)], 2'000'000);
  EXPECT_EQ(steps[5].forwards, 2u);
}

TEST(Ledger, PausesCutThroughPhases) {
  Loop l;
  for (int i = 0; i < 3; ++i) {
    l.fetch().begin(Kind::kForward, 1, kForwardGrad).pass(500).span(Kind::kGc, 250, 2).pass(500).end(Kind::kForward, 1);
    l.backward().optimizer();
    l.begin(Kind::kSave, 1).pass(3000).span(Kind::kGc, 1000, 2).end(Kind::kSave, 1);  // of the checkpoint
  }
  const auto steps = l.finish();
  EXPECT_EQ(steps[1].own[index(Category::kHostPause)], 250'000);
  EXPECT_EQ(steps[1].gc_ns, 250'000);
  EXPECT_EQ(steps[1].own[index(Category::kCheckpoint)], 4'000'000);
  EXPECT_TRUE(steps[1].tags & kTagCheckpoint);
  expect_closed_budget(steps);
}

TEST(Ledger, EndingTheWorkersBelongsToTheChangeOfEpochs) {
  Loop l;
  for (int i = 0; i < 3; ++i) l.fetch().forward().backward().optimizer();
  l.begin(Kind::kFetch, 1).pass(10).span(Kind::kLoaderEnd, 50'000, 1).end(Kind::kFetch, 1, kFetchStop);  // exhausted
  l.span(Kind::kLoaderEnd, 40'000, 1);  // or the last reference went
  for (int i = 0; i < 3; ++i) l.fetch().forward().backward().optimizer();
  const auto steps = l.finish();
  int64_t epoch_ns = 0, gap_ns = 0;
  for (const RankStep& s : steps)
    epoch_ns += s.own[index(Category::kEpochStart)], gap_ns += s.own[index(Category::kUnattributed)];
  EXPECT_EQ(epoch_ns, 90'000'000);
  EXPECT_LT(gap_ns, 2'000'000);
}

// torch tells nobody that optimizer.step was left by an exception; KeyboardInterrupt passes a forward's hooks by.
TEST(Ledger, APartThatAnExceptionLeftTakesNothingAfterIt) {
  for (const Kind left : {Kind::kOptimizer, Kind::kScalerStep, Kind::kForward, Kind::kBackward}) {
    SCOPED_TRACE(static_cast<int>(left));
    Loop l;
    l.epoch(1, 4);
    for (int i = 0; i < 3; ++i) l.fetch().forward().backward().optimizer();
    l.begin(left, 1, left == Kind::kForward ? kForwardGrad | kForwardTraining : 0).pass(10);  // raises, is caught
    l.epoch(2, 4);
    for (int i = 0; i < 2; ++i) l.fetch(2).span(Kind::kForward, 500, 1).pass(9000);  // evaluates, and sleeps
    l.epoch(1, 4);
    for (int i = 0; i < 3; ++i) l.fetch().forward().backward().optimizer().pass(700);
    const auto steps = l.finish();
    ASSERT_EQ(steps.size(), 6u);
    expect_closed_budget(steps);
    EXPECT_EQ(steps[3].own[index(Category::kValidation)], 2 * (100'000 + 500'000 + 9'000'000));
    EXPECT_GE(steps[5].own[index(Category::kUnattributed)], 700'000) << "gaps are gaps again";
    EXPECT_EQ(steps[4].own[index(Category::kOptimizer)], 300'000);
  }
}

TEST(Ledger, WithoutALoaderAnOptimizerThatRaisedEndsWhereItBeginsAgain) {
  Loop l;
  for (int i = 0; i < 2; ++i) l.forward().backward().optimizer();
  l.begin(Kind::kOptimizer, 1).pass(10);
  for (int i = 0; i < 3; ++i) l.forward().backward().optimizer().pass(700);
  const auto steps = l.finish();
  ASSERT_EQ(steps.size(), 5u);
  expect_closed_budget(steps);
  EXPECT_EQ(steps[4].own[index(Category::kOptimizer)], 300'000);
}

TEST(Ledger, RecomputationInsideBackwardStaysBackward) {
  Loop l;
  for (int i = 0; i < 3; ++i) {
    l.fetch().forward().begin(Kind::kBackward, 1).pass(500).forward().pass(500).end(Kind::kBackward, 1).optimizer();
  }
  const auto steps = l.finish();
  EXPECT_EQ(steps[1].own[index(Category::kBackward)], 2'010'000);
}

TEST(Ledger, StartupAndTeardownFrameTheSteps) {
  Loop l;
  l.builder.life().process_start_ns = 2'000'000'000;
  l.mark(Kind::kProcess, 1).pass(100'000).span(Kind::kInitGroup, 50'000);
  const int64_t first = static_cast<int64_t>(l.t_);
  for (int i = 0; i < 4; ++i) l.fetch().forward().backward().optimizer();
  l.pass(30'000);
  const auto steps = l.finish();
  const RankLife& life = l.builder.life();
  EXPECT_EQ(life.first_step_ns, first);
  EXPECT_EQ(sum(life.startup), first - life.process_start_ns);
  EXPECT_EQ(life.last_step_ns + sum(life.teardown), life.end_ns);
  int64_t total = sum(life.startup) + sum(life.teardown);
  for (const RankStep& s : steps) total += s.wall_ns();
  EXPECT_EQ(total, life.end_ns - life.process_start_ns);
}

TEST(Ledger, TrainingInAnotherThread) {
  // Ray and notebooks train outside of the main thread: the thread that steps is the one that counts.
  Loop l(99);
  l.builder = StepBuilder(7);
  for (int i = 0; i < 5; ++i) l.fetch().forward().backward().optimizer();
  EXPECT_EQ(l.finish().size(), 5u);
}

}  // namespace
}  // namespace stepscope
