// The step rule on the loops that torch programs are written in, and the ledger's promise: every nanosecond of a step
// is somewhere.
#include "align/step_builder.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <numeric>

#include "blackbox/event_kind.h"

namespace stepscope {
namespace {

// Speaks the hooks' language: spans of given length on one thread.
class Loop {
 public:
  explicit Loop(uint32_t thread = 7) : thread_(thread) {}
  Loop& on(uint32_t thread) { return thread_ = thread, *this; }
  Loop& pass(int64_t us) { return t_ += static_cast<uint64_t>(us) * 1000, *this; }
  Loop& begin(Kind k, uint64_t a = 0, uint16_t flags = 0, uint64_t b = 0) { return send(k, Edge::kBegin, a, flags, b); }
  Loop& end(Kind k, uint64_t a = 0, uint16_t flags = 0) { return send(k, Edge::kEnd, a, flags, 0); }
  // An iterator of a loader that says how large its batches are.
  Loop& epoch(uint64_t loader, uint64_t batch) {
    builder.push({t_, pack_kind(Kind::kLoaderCreate, Edge::kBegin), 0, thread_, loader, 0, batch, 0});
    return end(Kind::kLoaderCreate, loader);
  }
  Loop& value(const char* name, double number) {
    const uint64_t id = std::hash<std::string>()(name);
    builder.push_name(static_cast<uint16_t>(NameKind::kValue), id, name);
    return mark(Kind::kValue, id, std::bit_cast<uint64_t>(number));
  }
  Loop& mark(Kind k, uint64_t a = 0, uint64_t b = 0) { return send(k, Edge::kMark, a, 0, b); }
  Loop& span(Kind k, int64_t us, uint64_t a = 0, uint16_t flags = 0) { return begin(k, a, flags).pass(us).end(k, a); }
  Loop& fetch(uint64_t loader = 1) { return span(Kind::kFetch, 100, loader); }
  Loop& forward(uint64_t module = 1, bool grad = true) {
    return span(Kind::kForward, 1000, module, grad ? kForwardGrad | kForwardTraining : 0).pass(10);
  }
  Loop& backward(bool accumulate = true) {
    begin(Kind::kBackward, accumulate);
    pass(2000).mark(Kind::kBackwardOwn).pass(5);
    return end(Kind::kBackward, accumulate);
  }
  Loop& optimizer(uint64_t id = 1) { return span(Kind::kOptimizer, 300, id).pass(50); }
  std::vector<RankStep> finish() {
    builder.finish(static_cast<int64_t>(t_));
    std::vector<RankStep> more = builder.take_completed();
    steps.insert(steps.end(), more.begin(), more.end());
    return steps;
  }
  StepBuilder builder;
  std::vector<RankStep> steps;
  uint64_t t_ = 5'000'000'000;

 private:
  Loop& send(Kind k, Edge e, uint64_t a, uint16_t flags, uint64_t b) {
    builder.push({t_, pack_kind(k, e), flags, thread_, a, b, 0, 0});
    for (RankStep& s : builder.take_completed()) steps.push_back(std::move(s));
    return *this;
  }
  uint32_t thread_;
};

int64_t sum(const LedgerNs& l) { return std::accumulate(l.begin(), l.end(), int64_t{0}); }

void expect_closed_budget(const std::vector<RankStep>& steps) {
  for (size_t i = 0; i < steps.size(); ++i) {
    const RankStep& s = steps[i];
    EXPECT_EQ(s.step, i);
    EXPECT_EQ(sum(s.own) + s.stall_ns(), s.wall_ns()) << "step " << i;
    if (i) EXPECT_EQ(s.begin_ns, steps[i - 1].end_ns) << "steps tile wall time";
    ASSERT_EQ(s.segments.size(), s.stalls.size() + 1);
    LedgerNs together{};
    for (const LedgerNs& segment : s.segments)
      for (size_t c = 0; c < kCategoryCount; ++c) together[c] += segment[c];
    EXPECT_EQ(together, s.own);
  }
}

TEST(StepBuilder, ThreadsThatTrainOneAfterTheOtherGiveOneRowOfSteps) {
  Loop loop;
  for (uint32_t thread = 1; thread <= 4; ++thread)
    for (int i = 0; i < 7; ++i) loop.on(thread).fetch().forward(thread).backward().optimizer(thread).pass(1000);
  for (int i = 0; i < 2; ++i) loop.on(9).fetch().forward(9).backward().optimizer(9);  // the last one does little
  const auto steps = loop.finish();
  EXPECT_EQ(steps.size(), 4u * 7 + 2);
  for (const RankStep& step : steps) {
    EXPECT_NEAR(static_cast<double>(step.own[index(Category::kOptimizer)]) * 1e-3, 300, 1) << step.step;
    EXPECT_NEAR(static_cast<double>(step.own[index(Category::kBackward)]) * 1e-3, 2005, 1) << step.step;
    EXPECT_EQ(step.fetch.fetches, 1u) << step.step;
  }
  EXPECT_TRUE(loop.builder.life().unavailable.empty());
}

TEST(StepBuilder, ThreadsThatTrainAtTheSameTimeAreSaidPlainly) {
  Loop loop;
  for (int i = 0; i < 50; ++i) {
    loop.on(1).begin(Kind::kBackward, 1).pass(500);
    loop.on(2).begin(Kind::kBackward, 1).pass(500).mark(Kind::kBackwardOwn);
    loop.on(1).mark(Kind::kBackwardOwn).pass(500).end(Kind::kBackward, 1).optimizer(1);
    loop.on(2).end(Kind::kBackward, 1).optimizer(2).optimizer(3);
    loop.on(3).backward().optimizer(4);
  }
  const auto steps = loop.finish();
  EXPECT_EQ(steps.size(), 50u);
  ASSERT_EQ(loop.builder.life().unavailable.size(), 1u);
  const std::string& said = loop.builder.life().unavailable[0];
  EXPECT_TRUE(said.starts_with("steps of other threads: ")) << said;
  EXPECT_NE(said.find(" steps of 2 other threads"), std::string::npos) << said;
}

TEST(StepBuilder, AnotherThreadsBackwardEndsNoOwnWork) {
  Loop loop;
  loop.builder.life().world_size = 2;  // the tail of a backward is a stall
  for (int i = 0; i < 10; ++i) {
    loop.on(1).begin(Kind::kBackward, 1).pass(1000);
    loop.on(2).begin(Kind::kBackward, 1).pass(10).mark(Kind::kBackwardOwn).end(Kind::kBackward, 1).optimizer(2);
    loop.on(1).pass(1000).mark(Kind::kBackwardOwn).pass(100).end(Kind::kBackward, 1).optimizer(1);
  }
  for (const RankStep& step : loop.finish())
    EXPECT_NEAR(static_cast<double>(step.stall_ns()) * 1e-3, 100, 1) << step.step;
}

TEST(StepBuilder, AThreadThatOnlyHelpsIsNotFollowed) {
  Loop loop;
  for (int i = 0; i < 20; ++i) {
    loop.on(1).forward().backward().optimizer();
    for (int j = 0; j < 5; ++j) loop.on(2).fetch(2).forward(2, false).span(Kind::kSave, 10).span(Kind::kGc, 10);
  }
  EXPECT_EQ(loop.finish().size(), 20u);
  EXPECT_TRUE(loop.builder.life().unavailable.empty());
}

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
}

TEST(Ledger, PausesCutThroughPhases) {
  Loop l;
  for (int i = 0; i < 3; ++i) {
    l.fetch().begin(Kind::kForward, 1, kForwardGrad).pass(500).span(Kind::kGc, 250, 2).pass(500).end(Kind::kForward, 1);
    l.backward().optimizer();
    l.begin(Kind::kSave, 1).pass(4000).end(Kind::kSave, 1);
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

double samples_of(const std::vector<RankStep>& steps) {
  double total = 0;
  for (const RankStep& s : steps) total += s.samples;
  return total;
}

TEST(Throughput, BatchesAreCountedAsTheLoaderWasSetUp) {
  Loop l;
  l.epoch(1, 16);
  for (int i = 0; i < 5; ++i) l.fetch().forward().backward().optimizer();
  const auto steps = l.finish();
  EXPECT_EQ(samples_of(steps), 80);
  EXPECT_EQ(steps[2].samples, 16);
  EXPECT_EQ(steps[2].tokens, 0);
}

TEST(Throughput, TheShapeOfABatchCountsMoreThanTheSetUp) {
  Loop l;
  l.epoch(1, 16);
  for (int i = 0; i < 4; ++i) {
    const uint64_t rows = i == 3 ? 5 : 16;  // the last one of an epoch
    l.fetch().mark(Kind::kShape, rows, rows * 128).forward().backward().optimizer();
  }
  const auto steps = l.finish();
  EXPECT_EQ(samples_of(steps), 53);
  EXPECT_EQ(steps[1].tokens, 16 * 128);
  EXPECT_EQ(steps[3].samples, 5);
}

TEST(Throughput, ValidationIsNoTraining) {
  Loop l;
  for (int i = 0; i < 4; ++i) {
    l.fetch(1).mark(Kind::kShape, 8).forward().backward().optimizer();
    for (int v = 0; v < 3; ++v) l.fetch(2).mark(Kind::kShape, 100).forward(1, false);
  }
  l.fetch(1).mark(Kind::kShape, 8).forward().backward().optimizer();
  EXPECT_EQ(samples_of(l.finish()), 40);
  EXPECT_EQ(l.builder.life().training_loaders, std::vector<uint64_t>{1});
}

TEST(Throughput, WhatTheProgramLogsIsTakenInstead) {
  Loop l;
  l.epoch(1, 16);
  for (int i = 0; i < 4; ++i) {
    l.fetch().mark(Kind::kShape, 16, 999).forward().backward();
    l.value("samples", 12).value("tokens", 100).value("flops", 1e9).optimizer();
  }
  const auto steps = l.finish();
  EXPECT_EQ(samples_of(steps), 48);
  EXPECT_EQ(steps[0].tokens, 100);
  EXPECT_EQ(steps[3].flops, 1e9);
}

std::vector<int32_t> epochs_of(const std::vector<RankStep>& steps) {
  std::vector<int32_t> out;
  for (const RankStep& s : steps) out.push_back(s.epoch);
  return out;
}

TEST(Epoch, IsHowOftenTheTrainingLoaderWasStartedOver) {
  Loop l;
  for (int epoch = 0; epoch < 3; ++epoch) {
    l.epoch(1, 16);
    for (int i = 0; i < 2; ++i) l.fetch().forward().backward().optimizer();
    l.epoch(2, 16);  // evaluation has a loader of its own
    for (int v = 0; v < 3; ++v) l.fetch(2).forward(1, false);
  }
  EXPECT_EQ(epochs_of(l.finish()), (std::vector<int32_t>{0, 0, 1, 1, 2, 2}));
}

TEST(Epoch, ASanityCheckBeforeTrainingDoesNotCount) {
  Loop l;
  l.epoch(2, 16).fetch(2).forward(1, false);
  l.epoch(1, 16).epoch(1, 16);  // looked at, then started
  for (int i = 0; i < 2; ++i) l.fetch().forward().backward().optimizer();
  EXPECT_EQ(epochs_of(l.finish()), (std::vector<int32_t>{0, 0}));
}

// Number of the epoch of each step where loaders are passed over in this order, two steps each.
std::vector<int32_t> epochs_of_passes(const std::vector<uint64_t>& loaders) {
  Loop l;
  for (const uint64_t loader : loaders) {
    l.epoch(loader, 16);
    for (int i = 0; i < 2; ++i) l.fetch(loader).forward().backward().optimizer();
    l.begin(Kind::kFetch, loader).pass(10).end(Kind::kFetch, loader, kFetchStop);
  }
  const std::vector<int32_t> each = epochs_of(l.finish());
  std::vector<int32_t> out;
  for (size_t i = 0; i < each.size(); i += 2) {
    EXPECT_EQ(each[i], each[i + 1]);
    out.push_back(each[i]);
  }
  return out;
}

TEST(Epoch, ALoaderThatTakesTheOthersPlaceBeginsOne) {
  EXPECT_EQ(epochs_of_passes({1, 1, 2, 1, 1, 2, 1}), (std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6}))
      << "now and then another";
  EXPECT_EQ(epochs_of_passes({1, 1, 2, 2, 3, 3}), (std::vector<int32_t>{0, 1, 2, 3, 4, 5}))
      << "stages, one after the other";
  EXPECT_EQ(epochs_of_passes({1, 2, 2, 2}), (std::vector<int32_t>{0, 0, 1, 2})) << "a stage of one epoch";
}

TEST(Epoch, LoadersThatHaveTheirTurnInEachBeginNone) {
  EXPECT_EQ(epochs_of_passes({1, 2, 1, 2, 1, 2}), (std::vector<int32_t>{0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(epochs_of_passes({1, 2, 3, 1, 2, 3}), (std::vector<int32_t>{0, 0, 0, 1, 1, 1}));
}

// A second loader of half the length feeds the same steps, by the same forward or by one of its own.
TEST(Epoch, ALoaderBesideTheFirstBeginsNone) {
  for (const bool own_forward : {false, true}) {
    SCOPED_TRACE(own_forward);
    Loop l;
    for (int epoch = 0; epoch < 3; ++epoch) {
      l.epoch(1, 16);
      for (int i = 0; i < 4; ++i) {
        if (!own_forward && i % 2 == 0) l.epoch(2, 16);
        if (!own_forward) l.fetch(2);
        l.fetch(1).forward().backward();
        if (own_forward && i % 2 == 0) l.epoch(2, 16);
        if (own_forward) l.fetch(2).forward().backward();
        l.optimizer();
      }
    }
    EXPECT_EQ(epochs_of(l.finish()), (std::vector<int32_t>{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2}));
  }
}

TEST(Epoch, TheFirstStepsWordIsTheNumberOfTheFirst) {
  Loop l;
  for (int epoch = 0; epoch < 2; ++epoch) {
    l.epoch(1, 16);
    for (int i = 0; i < 2; ++i) {
      l.fetch().forward().backward().optimizer();
      l.value("epoch", 7 + epoch + 0.5 * (i + 1));  // as trainers count: 8.0 after the last step of epoch 7
    }
  }
  EXPECT_EQ(epochs_of(l.finish()), (std::vector<int32_t>{7, 7, 8, 8}));
}

TEST(Epoch, SaidOnceAtItsEndItNamesNoStepOfItsOwn) {
  Loop l;
  for (int epoch = 1; epoch <= 2; ++epoch) {
    l.epoch(1, 16);
    for (int i = 0; i < 3; ++i) l.fetch().forward().backward().optimizer();
    l.value("epoch", epoch);
  }
  EXPECT_EQ(epochs_of(l.finish()), (std::vector<int32_t>{0, 0, 0, 1, 1, 1}));
}

TEST(Epoch, WithoutALoaderTheProgramsWordHolds) {
  Loop l;
  for (int epoch = 3; epoch < 5; ++epoch) {
    l.value("epoch", epoch);
    for (int i = 0; i < 2; ++i) l.forward().backward().optimizer();
  }
  EXPECT_EQ(epochs_of(l.finish()), (std::vector<int32_t>{3, 3, 4, 4}));
}

TEST(Epoch, IsUnknownWithoutAnyWord) {
  Loop l;
  for (int i = 0; i < 2; ++i) l.forward().backward().optimizer();
  l.value("epoch", -1).value("epoch", 1e30).forward().backward().optimizer();
  EXPECT_EQ(epochs_of(l.finish()), (std::vector<int32_t>{-1, -1, -1}));
}

TEST(Configuration, FactsAreReadAndReplaced) {
  StepBuilder builder;
  const auto kind = static_cast<uint16_t>(NameKind::kAdvice);
  builder.push_name(kind, 5, "loader|workers=2;batch=16;epochs=1");
  builder.push_name(kind, 6, "loader|workers=0");
  builder.push_name(kind, 5, "loader|workers=2;batch=16;epochs=2");
  builder.push_name(kind, 1, "ddp");                  // nothing said of it
  builder.push_name(kind, 2, "odd|=x;y;z=;a=b=c;;");  // bytes of a stranger
  builder.push_name(static_cast<uint16_t>(NameKind::kFact), 9, "device=cuda:0 NVIDIA H100 80GB HBM3");
  const auto& facts = builder.life().configuration;
  ASSERT_EQ(facts.size(), 4u);
  EXPECT_EQ(facts[0].subject, "loader");
  EXPECT_EQ(facts[0].values.at("epochs"), "2");
  EXPECT_EQ(facts[0].values.at("batch"), "16");
  EXPECT_TRUE(facts[2].values.empty());
  EXPECT_EQ(facts[3].values.at("a"), "b=c");
  EXPECT_EQ(builder.life().device, "cuda:0 NVIDIA H100 80GB HBM3");
}

TEST(Configuration, ItIsBounded) {
  StepBuilder builder;
  for (uint64_t id = 0; id < 10'000; ++id)
    builder.push_name(static_cast<uint16_t>(NameKind::kAdvice), id, "loader|workers=1");
  EXPECT_LE(builder.life().configuration.size(), 128u);
}

RC_GTEST_PROP(StepBuilderProperty, AnyEventListKeepsTheBudgetClosed, ()) {
  StepBuilder builder;
  builder.life().world_size = *rc::gen::inRange(1, 4);
  uint64_t t = 1'000'000;
  const auto list = *rc::gen::container<std::vector<std::tuple<int, int, int, int>>>(rc::gen::tuple(
      rc::gen::inRange(1, 40), rc::gen::inRange(0, 3), rc::gen::inRange(0, 3), rc::gen::inRange(-50, 5000)));
  std::vector<RankStep> steps;
  for (const auto& [kind, edge, id, dt] : list) {
    t += static_cast<uint64_t>(std::max(dt, -50) + 50);
    builder.push(
        {t, static_cast<uint16_t>(kind | edge << 8), static_cast<uint16_t>(id), 7, static_cast<uint64_t>(id), 0, 0, 0});
    for (RankStep& s : builder.take_completed()) steps.push_back(std::move(s));
  }
  builder.finish(static_cast<int64_t>(t + 1000));
  for (RankStep& s : builder.take_completed()) steps.push_back(std::move(s));
  int64_t total = sum(builder.life().startup) + sum(builder.life().teardown);
  for (const RankStep& s : steps) {
    RC_ASSERT(sum(s.own) + s.stall_ns() == s.wall_ns());
    RC_ASSERT(s.segments.size() == s.stalls.size() + 1);
    total += s.wall_ns();
  }
  if (!list.empty()) {
    const int64_t seen = builder.life().end_ns - (builder.life().first_step_ns
                                                      ? builder.life().first_step_ns - sum(builder.life().startup)
                                                      : builder.life().end_ns - sum(builder.life().startup));
    RC_ASSERT(total == seen);
  }
}

// A reading of the allocator behind the last span's edge, as the recorder writes it.
void read_memory(Loop& l, Kind at, Edge edge, uint64_t allocated, uint64_t peak, uint64_t retries) {
  const uint16_t flags = pack_kind(at, edge);
  l.builder.push({l.t_, pack_kind(Kind::kMemory, Edge::kMark), flags, 7, allocated, 2 * allocated, allocated, 5});
  l.builder.push({l.t_, pack_kind(Kind::kMemoryPeak, Edge::kMark), flags, 7, peak, peak, 0, 0});
  l.builder.push({l.t_, pack_kind(Kind::kMemoryCounters, Edge::kMark), flags, 7, retries, 1, 9, 3});
}

TEST(StepBuilder, MemoryBelongsToTheStepInWhichItIsReadAndKeepsItsBoundary) {
  Loop l;
  for (uint64_t i = 0; i < 4; ++i) {
    l.fetch().begin(Kind::kH2d, 1000 + i).pass(20).end(Kind::kH2d).forward();
    l.begin(Kind::kBackward, 1);
    if (i != 1) read_memory(l, Kind::kBackward, Edge::kBegin, 700 + i, 900 + i, i);
    l.pass(2000).end(Kind::kBackward, 1).span(Kind::kOptimizer, 300, 1);
    if (i != 2) read_memory(l, Kind::kOptimizer, Edge::kEnd, 100 + i, 950 + i, 10 + i);
    l.pass(50);
  }
  const auto steps = l.finish();
  ASSERT_EQ(steps.size(), 4u);
  for (uint64_t i = 0; i < 4; ++i) {
    SCOPED_TRACE(i);
    ASSERT_TRUE(steps[i].memory);
    const DeviceMemory& m = *steps[i].memory;
    EXPECT_EQ(m.near_top, i != 1);
    EXPECT_EQ(m.allocated_bytes, i != 1 ? 700 + i : 101);
    EXPECT_EQ(m.held_bytes, i != 2 ? 100 + i : 0);
    EXPECT_EQ(m.reserved_bytes, 2 * m.allocated_bytes);
    EXPECT_EQ(m.peak_bytes, i != 2 ? 950 + i : 902);
    EXPECT_EQ(m.retries, i != 2 ? 10 + i : 2);
    EXPECT_EQ(m.device_frees, 3u);
  }
  // What is copied before the first step has begun is start-up; later copies belong to the step they feed.
  for (uint64_t i = 1; i < 4; ++i) EXPECT_EQ(steps[i].h2d_bytes, 1000 + i);
}

TEST(StepBuilder, FactsShareAnIdAndAreTold) {
  StepBuilder b;
  for (const char* fact : {"torch=2.15.0", "device_memory_bytes=85899345920", "python=3.12.3"})
    b.push_name(static_cast<uint16_t>(NameKind::kFact), 0, fact);
  EXPECT_EQ(b.names().size(), 3u);
  EXPECT_EQ(b.life().device_memory_bytes, 85899345920u);
}

}  // namespace
}  // namespace stepscope
