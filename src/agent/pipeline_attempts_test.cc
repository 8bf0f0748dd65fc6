// Attempts of a run: restarts, replaced and renumbered ranks, ranks that join.
#include "agent/pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "agent/replay.h"
#include "base/file.h"
#include "written_rings.h"

namespace stepscope {
namespace {

TEST_F(PipelineTest, AttemptsCountOnAndLostRanksStay) {
  Writer a0(root_, 0, 10), b0(root_, 1, 11);
  Pipeline pipeline({});
  std::vector<int> attempts;
  pipeline.on_attempt([&](int attempt) { attempts.push_back(attempt); });
  const auto ida = pipeline.add(a0.tail()), idb = pipeline.add(b0.tail());
  a0.steps(20), b0.steps(20);
  pipeline.pump(a0.now());
  pipeline.end_tail(idb, a0.now() + 1000, kKilled);
  pipeline.end_tail(ida, a0.now() + 2000, kTerminated);
  Writer a1(root_, 0, 20, 1), b1(root_, 1, 21, 1);
  const auto ida1 = pipeline.add(a1.tail());
  pipeline.add(b1.tail());
  a1.steps(10), b1.steps(10);
  pipeline.pump(a1.now());
  EXPECT_EQ(attempts, (std::vector<int>{0, 1}));
  EXPECT_FALSE(pipeline.has(ida));
  EXPECT_TRUE(pipeline.counts_as_rank(ida1));
  EXPECT_EQ(pipeline.take_closed_rings().size(), 2u);
  EXPECT_TRUE(pipeline.take_closed_rings().empty());
  for (Writer* w : {&a1, &b1}) w->header().life = blackbox::kLifeTeardown | blackbox::kLifeClosed;
  pipeline.finish(a1.now());
  const Snapshot snapshot = pipeline.snapshot();
  EXPECT_EQ(snapshot.run.attempts, 2);
  EXPECT_EQ(snapshot.steps, 30u);
  EXPECT_EQ(pipeline.first_unclean_death(), nullptr);
  ASSERT_TRUE(pipeline.first_unclean_death(true));
  const auto lost = of_kind(snapshot, FindingKind::kRankLost);
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_TRUE(lost[0].title.ends_with("(attempt 1)")) << lost[0].title;
  EXPECT_EQ(snapshot.observer.records, 480u);
}

TEST_F(PipelineTest, ASecondLifeOfARankIsAnotherAttemptASecondOwnerIsRefused) {
  Writer a(root_, 0, 10, 0, 4096, 1), twin(root_, 0, 11, 0, 4096, 1);
  Pipeline pipeline({});
  const auto ida = pipeline.add(a.tail());
  a.steps(5), twin.steps(5);
  pipeline.pump(a.now());
  const auto refused = pipeline.add(twin.tail());
  pipeline.pump(a.now());
  EXPECT_FALSE(pipeline.counts_as_rank(refused));
  ASSERT_EQ(pipeline.snapshot().observer.notes.size(), 1u);
  pipeline.end_tail(ida, a.now(), 0);
  pipeline.pump(a.now());
  EXPECT_FALSE(pipeline.counts_as_rank(refused)) << "it has not gone on";
  pipeline.end_tail(refused, a.now(), 0);
  Writer second(root_, 0, 12, 0, 4096, 1, a.now());
  second.steps(5);
  const auto ids = pipeline.add(second.tail());
  pipeline.pump(a.now());
  EXPECT_TRUE(pipeline.counts_as_rank(ids));
  EXPECT_EQ(pipeline.attempts(), 2);
}

// Feeds both and pumps as they go.
void train(Pipeline& pipeline, std::vector<Writer*> ranks, int steps) {
  for (int i = 0; i < steps; ++i) {
    for (Writer* rank : ranks) rank->steps(1);
    pipeline.pump(ranks[0]->now());
  }
}

void leave(std::vector<Writer*> ranks) {
  for (Writer* rank : ranks) rank->header().life = blackbox::kLifeTeardown | blackbox::kLifeClosed;
}

TEST_F(PipelineTest, AReplacedRankLeavesTheOthersAliveAndCountsOnWithThem) {
  for (const int status : {kKilled, kTerminated, 0}) {
    Writer a(root_, 0, 10), b(root_, 1, 11);
    Pipeline pipeline({});
    const auto ida = pipeline.add(a.tail()), idb = pipeline.add(b.tail());
    train(pipeline, {&a, &b}, 20);
    pipeline.end_tail(idb, b.now(), status);
    train(pipeline, {&a}, 10);  // it does not need the other one
    Writer b2(root_, 1, 21, 0, 4096, 2, a.now());
    const auto idb2 = pipeline.add(b2.tail());
    train(pipeline, {&a, &b2}, 30);
    EXPECT_TRUE(pipeline.counts_as_rank(ida));
    EXPECT_TRUE(pipeline.counts_as_rank(idb2));
    EXPECT_EQ(pipeline.take_closed_rings(), std::vector<std::string>{b.path()}) << "rank 0's ring is in use";
    EXPECT_FALSE(pipeline.tail(ida).ended());
    leave({&a, &b2});
    pipeline.end_tail(ida, a.now(), 0), pipeline.end_tail(idb2, b2.now(), 0);
    pipeline.finish(a.now());
    const Snapshot snapshot = pipeline.snapshot();
    EXPECT_EQ(snapshot.run.attempts, 1);
    EXPECT_EQ(snapshot.steps, 60u);
    // 20 + 30 of 60: within the one step that the seam costs.
    EXPECT_NEAR(snapshot.observer.coverage, 110.0 / 120, 1.5 / 120);
    EXPECT_EQ(pipeline.first_unclean_death(), nullptr) << "the job went on";
    const auto lost = of_kind(snapshot, FindingKind::kRankLost);
    ASSERT_EQ(lost.size(), status == kKilled ? 1u : 0u) << status;
    if (status != kKilled) continue;
    EXPECT_EQ(lost[0].ranks, std::vector<int>{1});
    EXPECT_EQ(lost[0].severity, Severity::kWarn);
    EXPECT_EQ(lost[0].first_step, 20);
    EXPECT_TRUE(lost[0].title.ends_with("another process took its place")) << lost[0].title;
  }
}

TEST_F(PipelineTest, NewNumbersAtTheSameRestartCountAreAnotherAttempt) {
  // Elastic: one rank alone, then two, then one again; torch's count stays 0. Who is first to be seen does not matter.
  for (const bool zero_first : {true, false}) {
    Writer a(root_, 0, 10, 0, 4096, 1);
    Pipeline pipeline({});
    const auto ida = pipeline.add(a.tail());
    train(pipeline, {&a}, 40);
    pipeline.end_tail(ida, a.now(), std::nullopt);  // asked to stop; how it ended cannot be seen
    Writer b0(root_, 0, 20, 0, 4096, 2, a.now()), b1(root_, 1, 21, 0, 4096, 2, a.now());
    Pipeline::TailId ids[2];
    for (const bool zero : {zero_first, !zero_first}) {
      ids[zero ? 0 : 1] = pipeline.add((zero ? b0 : b1).tail());
      train(pipeline, {zero ? &b0 : &b1}, 1);
    }
    train(pipeline, {&b0, &b1}, 49);
    for (const auto id : ids) pipeline.end_tail(id, b0.now(), kTerminated);
    Writer c(root_, 0, 30, 0, 4096, 1, b0.now());
    const auto idc = pipeline.add(c.tail());
    train(pipeline, {&c}, 30);
    leave({&c});
    pipeline.end_tail(idc, c.now(), 0);
    pipeline.finish(c.now());
    const Snapshot snapshot = pipeline.snapshot();
    EXPECT_EQ(snapshot.run.attempts, 3);
    EXPECT_EQ(snapshot.steps, 120u);
    EXPECT_EQ(snapshot.observer.coverage, 1.0);
    EXPECT_TRUE(of_kind(snapshot, FindingKind::kRankLost).empty());
  }
}

TEST_F(PipelineTest, ALaunchAfterARestartedOneIsAnotherAttemptThoughItCountsLess) {
  Writer a(root_, 0, 10, 0, 4096, 1);
  Pipeline pipeline({});
  const auto ida = pipeline.add(a.tail());
  train(pipeline, {&a}, 10);
  pipeline.end_tail(ida, a.now(), 1 << 8);
  Writer b(root_, 0, 20, 1, 4096, 1, a.now());
  const auto idb = pipeline.add(b.tail());
  train(pipeline, {&b}, 10);
  leave({&b});
  pipeline.end_tail(idb, b.now(), 0);
  Writer c(root_, 0, 30, 0, 4096, 1, b.now());  // the next line of a shell script
  const auto idc = pipeline.add(c.tail());
  train(pipeline, {&c}, 10);
  EXPECT_TRUE(pipeline.counts_as_rank(idc));
  pipeline.finish(c.now());
  EXPECT_EQ(pipeline.attempts(), 3);
  EXPECT_EQ(pipeline.snapshot().steps, 30u);
}

TEST_F(PipelineTest, ALeftOverOfAnEarlierAttemptIsHistory) {
  Writer a(root_, 0, 10, 0, 4096, 1), b(root_, 0, 20, 1, 4096, 1, 9'000'000'000);
  Pipeline pipeline({});
  a.steps(5), b.steps(5);
  const auto idb = pipeline.add(b.tail());
  pipeline.pump(b.now());
  const auto ida = pipeline.add(a.tail());  // shows only now
  pipeline.pump(b.now());
  EXPECT_TRUE(pipeline.counts_as_rank(idb));
  EXPECT_FALSE(pipeline.counts_as_rank(ida));
  EXPECT_EQ(pipeline.attempts(), 1);
}

TEST_F(PipelineTest, WhoTrainsBesideIsFollowedWhenItGoesOnAlone) {
  Writer a(root_, 0, 10, 0, 4096, 1), twin(root_, 0, 11, 0, 4096, 1);
  Pipeline pipeline({});
  const auto ida = pipeline.add(a.tail()), idtwin = pipeline.add(twin.tail());
  train(pipeline, {&a, &twin}, 400);  // far more than a process that waits may hold
  EXPECT_LE(pipeline.tail(idtwin).waiting_steps().size(), 257u);
  leave({&a});
  pipeline.end_tail(ida, a.now(), 0);
  train(pipeline, {&twin}, 20);
  EXPECT_TRUE(pipeline.counts_as_rank(idtwin));
  pipeline.finish(twin.now());
  EXPECT_EQ(pipeline.attempts(), 2);
  EXPECT_NEAR(pipeline.snapshot().steps, 420u, 2);
}

TEST_F(PipelineTest, RanksThatAreNumberedAnewInTheirProcess) {
  Writer a(root_, 1, 10), b(root_, 0, 11);
  Pipeline pipeline({});
  const auto ida = pipeline.add(a.tail()), idb = pipeline.add(b.tail());
  train(pipeline, {&a, &b}, 20);
  pipeline.end_tail(idb, b.now(), 0);
  a.header().rank = 0, a.header().world_size = 3;  // the survivor; two join
  Writer c(root_, 1, 21, 0, 4096, 3, a.now()), d(root_, 2, 22, 0, 4096, 3, a.now());
  pipeline.add(c.tail()), pipeline.add(d.tail());
  train(pipeline, {&a, &c, &d}, 30);
  EXPECT_TRUE(pipeline.counts_as_rank(ida));
  EXPECT_FALSE(pipeline.tail(ida).ended());
  leave({&a, &c, &d});
  pipeline.finish(a.now());
  const Snapshot snapshot = pipeline.snapshot();
  EXPECT_EQ(snapshot.run.attempts, 2);
  EXPECT_NEAR(snapshot.steps, 50u, 1);
  EXPECT_EQ(snapshot.run.world_size, 3);
  EXPECT_TRUE(of_kind(snapshot, FindingKind::kRankLost).empty());
}

TEST_F(PipelineTest, ARankThatLearnsItsNumberLateIsNoOtherAttempt) {
  // mp.spawn without variables: an optimizer was seen before the process group was made.
  Writer a(root_, 0, 10, 0, 4096, 1), b(root_, 0, 11, 0, 4096, 1);
  Pipeline pipeline({});
  const auto ida = pipeline.add(a.tail()), idb = pipeline.add(b.tail());
  pipeline.pump(a.now());
  b.header().rank = 1;
  for (Writer* w : {&a, &b}) w->header().world_size = 2;
  pipeline.pump(a.now());
  train(pipeline, {&a, &b}, 20);
  EXPECT_TRUE(pipeline.counts_as_rank(ida));
  EXPECT_TRUE(pipeline.counts_as_rank(idb));
  leave({&a, &b});
  pipeline.finish(a.now());
  EXPECT_EQ(pipeline.attempts(), 1);
  EXPECT_EQ(pipeline.snapshot().steps, 20u);
  EXPECT_TRUE(pipeline.snapshot().observer.notes.empty());
}

TEST_F(PipelineTest, ARankThatJoinsOthersInTheirStepsCountsFromThere) {
  for (const bool in_step : {true, false}) {  // without a process group their steps have nothing to do with each other
    Writer a(root_, 0, 10);
    Pipeline pipeline({});
    pipeline.add(a.tail());
    if (in_step) a.put(Kind::kInitGroup, Edge::kBegin), a.put(Kind::kInitGroup, Edge::kEnd);
    train(pipeline, {&a}, 100);
    Writer b(root_, 1, 11, 0, 4096, 2, a.now());
    pipeline.add(b.tail());
    train(pipeline, {&a, &b}, 50);
    leave({&a, &b});
    pipeline.finish(a.now());
    const Snapshot snapshot = pipeline.snapshot();
    EXPECT_EQ(snapshot.steps, 150u);
    EXPECT_NEAR(snapshot.observer.coverage, 200.0 / 300, 1.5 / 300);
  }
}

TEST_F(PipelineTest, AScribbledHeaderIsNoOtherRank) {
  Writer a(root_, 0, 10);
  Pipeline pipeline({});
  const auto id = pipeline.add(a.tail());
  train(pipeline, {&a}, 10);
  a.header().rank = 7, a.header().world_size = 70, a.header().pid = 99;
  train(pipeline, {&a}, 10);
  EXPECT_TRUE(pipeline.counts_as_rank(id));
  EXPECT_EQ(pipeline.tail(id).identity().rank, 0);
  EXPECT_EQ(pipeline.attempts(), 1);
}

TEST_F(PipelineTest, ReplayTellsAReplacedRankToo) {
  const std::string folder = root_ + "/blackbox";
  ASSERT_TRUE(make_dirs(folder));
  Writer a(folder, 0, 10), b(folder, 1, 11);
  a.steps(20), b.steps(20);
  Writer b2(folder, 1, 21, 0, 4096, 2, b.now());
  a.steps(30), b2.steps(30);
  leave({&a, &b2});
  const auto replayed = replay_rings(folder);
  ASSERT_TRUE(replayed) << replayed.error().message;
  EXPECT_EQ(replayed->steps, 50u);
  EXPECT_EQ(replayed->run.attempts, 1);
  const auto lost = of_kind(*replayed, FindingKind::kRankLost);
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0].ranks, std::vector<int>{1});
}

}  // namespace
}  // namespace stepscope
