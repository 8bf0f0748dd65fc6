// Which end of a rank is a loss, which rank went first, and what a request to stop explains.
#include "agent/pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "written_rings.h"

namespace stepscope {
namespace {

TEST_F(PipelineTest, TheFirstDeathIsNamedTheOthersFollowedFromIt) {
  Writer a(root_, 0, 10), b(root_, 1, 11);
  Pipeline pipeline({});
  const auto ida = pipeline.add(a.tail()), idb = pipeline.add(b.tail());
  a.steps(20), b.steps(20);
  pipeline.pump(a.now());
  pipeline.end_tail(idb, a.now() + 1000, kKilled);
  pipeline.end_tail(ida, a.now() + 2000, kTerminated);
  pipeline.finish(a.now() + 3000);
  const UncleanDeath* first = pipeline.first_unclean_death();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->rank, 1);
  EXPECT_EQ(first->signal, 9);
  const auto lost = of_kind(pipeline.snapshot(), FindingKind::kRankLost);
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0].ranks, std::vector<int>{1});
  EXPECT_EQ(lost[0].first_step, 20);
}

TEST_F(PipelineTest, ARankThatEndsItselfIsToldByItsExitCode) {
  for (const auto& [status, cause] : {std::pair{std::optional(3 << 8), "exit_code"},
                                      {std::optional(kKilled), "signal_9"},
                                      {std::nullopt, "killed"}}) {
    Writer a(root_, 0, 10), b(root_, 1, 11);
    Pipeline pipeline({});
    pipeline.add(a.tail());
    const auto idb = pipeline.add(b.tail());
    a.steps(20), b.steps(20);
    pipeline.pump(a.now());
    pipeline.end_tail(idb, a.now() + 1000, status);
    pipeline.finish(a.now() + 3000);
    const auto lost = of_kind(pipeline.snapshot(), FindingKind::kRankLost);
    ASSERT_EQ(lost.size(), 1u) << cause;
    EXPECT_EQ(lost[0].cause.str(), cause);
  }
}

TEST_F(PipelineTest, AnExceptionIsOlderThanTheExitThatFollowsIt) {
  Writer a(root_, 0, 10), b(root_, 1, 11);
  Pipeline pipeline({});
  const auto ida = pipeline.add(a.tail()), idb = pipeline.add(b.tail());
  a.steps(20), b.steps(20);
  b.name(NameKind::kException, 5, "ValueError: boom");
  b.put(Kind::kException, Edge::kMark, 5);
  b.header().life = blackbox::kLifeTeardown | blackbox::kLifeException | blackbox::kLifeClosed;
  // Rank 0 died of the closed connection before rank 1 had left.
  pipeline.end_tail(ida, b.now() + 1'000'000, 1 << 8);
  pipeline.end_tail(idb, b.now() + 5'000'000, 1 << 8);
  pipeline.finish(b.now() + 6'000'000);
  ASSERT_TRUE(pipeline.first_unclean_death());
  EXPECT_EQ(pipeline.first_unclean_death()->exception, "ValueError: boom");
}

// Its connections are gone as it gives up its group; its process takes seconds more, or is ended by the launcher.
TEST_F(PipelineTest, WhoLeftInOrderIsNamedThoughItsProcessOutlastsTheOthersError) {
  for (const std::optional<int> status : {std::optional(0), std::optional(kTerminated)}) {
    Writer a(root_, 0, 10), b(root_, 1, 11);
    Pipeline pipeline({});
    const auto ida = pipeline.add(a.tail()), idb = pipeline.add(b.tail());
    a.steps(20), b.steps(20);
    a.put(Kind::kTeardown, Edge::kBegin);
    b.put(Kind::kForward, Edge::kBegin);
    b.name(NameKind::kException, 5, "RuntimeError: Connection closed by peer [127.0.0.1]:24455");
    b.put(Kind::kException, Edge::kMark, 5, 500'000'000);
    a.put(Kind::kTeardown, Edge::kEnd, 1, 1'000'000'000);
    a.header().life = blackbox::kLifeTeardown | blackbox::kLifeClosed;
    pipeline.end_tail(idb, b.now() + 600'000'000, 1 << 8);
    pipeline.end_tail(ida, a.now() + 900'000'000, status);
    pipeline.finish(a.now() + 1'000'000'000);
    const auto lost = of_kind(pipeline.snapshot(), FindingKind::kRankLost);
    ASSERT_EQ(lost.size(), 1u);
    EXPECT_EQ(lost[0].ranks, std::vector<int>{0}) << lost[0].title;
    EXPECT_EQ(lost[0].cause.str(), "uneven_steps");
  }
}

TEST_F(PipelineTest, WhoGaveUpAGroupForAnotherHasNotLeft) {
  Writer a(root_, 0, 10), b(root_, 1, 11);
  Pipeline pipeline({});
  const auto ida = pipeline.add(a.tail()), idb = pipeline.add(b.tail());
  for (Writer* rank : {&a, &b}) {
    rank->steps(20);
    for (const Edge edge : {Edge::kBegin, Edge::kEnd}) rank->put(Kind::kTeardown, edge);
    for (const Edge edge : {Edge::kBegin, Edge::kEnd}) rank->put(Kind::kInitGroup, edge);
    rank->steps(20);
  }
  b.name(NameKind::kException, 5, "RuntimeError: Connection closed by peer [127.0.0.1]:24455");
  b.put(Kind::kException, Edge::kMark, 5);
  pipeline.end_tail(idb, b.now() + 600'000'000, 1 << 8);
  pipeline.end_tail(ida, b.now() + 900'000'000, kTerminated);
  pipeline.finish(b.now() + 1'000'000'000);
  const auto lost = of_kind(pipeline.snapshot(), FindingKind::kRankLost);
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0].ranks, std::vector<int>{1}) << lost[0].title;
}

TEST_F(PipelineTest, AnExceptionOfAThreadIsNoLossWhereTheProcessEndsWell) {
  const uint64_t closed = blackbox::kLifeTeardown | blackbox::kLifeClosed;
  struct Case {
    uint64_t life;
    std::optional<int> status;
    bool lost;
  };
  for (const Case& c :
       {Case{closed, 0, false}, Case{closed, std::nullopt, false}, Case{0, 0, false}, Case{closed, 3 << 8, true},
        Case{closed, kKilled, true}, Case{closed | blackbox::kLifeException, std::nullopt, true}}) {
    Writer a(root_, 0, 10, 0, 4096, 1);
    a.steps(5);
    a.name(NameKind::kException, 5, "ValueError: in a logger");
    a.put(Kind::kException, Edge::kMark, 5);
    a.steps(15);
    a.header().life = c.life;
    Pipeline pipeline({});
    const auto id = pipeline.add(a.tail());
    pipeline.end_tail(id, a.now(), c.status);
    pipeline.finish(a.now());
    const Snapshot snapshot = pipeline.snapshot();
    EXPECT_EQ(pipeline.first_unclean_death() != nullptr, c.lost) << c.life << " " << c.status.value_or(-1);
    EXPECT_EQ(!of_kind(snapshot, FindingKind::kRankLost).empty(), c.lost) << c.life << " " << c.status.value_or(-1);
    const auto& notes = snapshot.observer.notes;
    EXPECT_EQ(std::count(notes.begin(), notes.end(), "rank 0: a thread of it ended by ValueError: in a logger"),
              c.lost ? 0 : 1);
  }
}

TEST_F(PipelineTest, CleanEndsAreNoDeaths) {
  struct Case {
    uint64_t life;
    std::optional<int> status;
    bool unclean;
  };
  const uint64_t closed = blackbox::kLifeTeardown | blackbox::kLifeClosed;
  for (const Case& c :
       {Case{closed, 0, false}, Case{closed, std::nullopt, false}, Case{closed, 3 << 8, true}, Case{0, 0, false},
        Case{0, std::nullopt, true}, Case{0, 3 << 8, true}, Case{closed, 6, true}, Case{0, 9, true}}) {
    Writer a(root_, 0, 10, 0, 4096, 1);
    a.steps(5);
    a.header().life = c.life;
    Pipeline pipeline({});
    const auto id = pipeline.add(a.tail());
    pipeline.end_tail(id, a.now(), c.status);
    pipeline.finish(a.now());
    EXPECT_EQ(pipeline.first_unclean_death() != nullptr, c.unclean) << c.life << " " << c.status.value_or(-1);
  }
}

TEST_F(PipelineTest, WhoEndsAfterAnInterruptIsNotLost) {
  Writer a(root_, 0, 10), b(root_, 1, 11);
  Pipeline pipeline({});
  const auto ida = pipeline.add(a.tail()), idb = pipeline.add(b.tail());
  a.steps(20), b.steps(20);
  pipeline.pump(a.now());
  pipeline.end_tail(idb, a.now() + 2000, kKilled);
  pipeline.interrupted(static_cast<int64_t>(a.now() + 1000));  // heard of a little later than it happened
  pipeline.end_tail(ida, a.now() + 3000, kKilled);
  pipeline.finish(a.now() + 4000);
  EXPECT_EQ(pipeline.first_unclean_death(), nullptr);
  EXPECT_TRUE(of_kind(pipeline.snapshot(), FindingKind::kRankLost).empty());
}

TEST_F(PipelineTest, AnInterruptHeardOfLateIsKnownByItsException) {
  Writer a(root_, 0, 10), b(root_, 1, 11);
  Pipeline pipeline({});
  const auto ida = pipeline.add(a.tail()), idb = pipeline.add(b.tail());
  a.steps(20), b.steps(20);
  b.name(NameKind::kException, 1, "KeyboardInterrupt");
  b.put(Kind::kException, Edge::kMark, 1);
  pipeline.end_tail(idb, b.now() + 1000, kKilled);
  const uint64_t heard = b.now() + 3'000'000'000;
  pipeline.interrupted(static_cast<int64_t>(heard));
  pipeline.end_tail(ida, heard + 1000, kKilled);
  pipeline.finish(heard + 2000);
  EXPECT_EQ(pipeline.first_unclean_death(), nullptr);
  EXPECT_TRUE(of_kind(pipeline.snapshot(), FindingKind::kRankLost).empty());
}

TEST_F(PipelineTest, WhoFailedBeforeAnInterruptIsLostAlthoughItsProcessLivedOn) {
  Writer a(root_, 0, 10), b(root_, 1, 11);
  Pipeline pipeline({});
  const auto ida = pipeline.add(a.tail()), idb = pipeline.add(b.tail());
  a.steps(20), b.steps(20);
  b.name(NameKind::kException, 1, "ValueError: x");
  b.put(Kind::kException, Edge::kMark, 1);
  const uint64_t heard = b.now() + 3'000'000'000;  // it hung in its teardown until somebody lost patience
  pipeline.pump(heard);
  pipeline.interrupted(static_cast<int64_t>(heard));
  pipeline.end_tail(idb, heard + 1000, kKilled);
  pipeline.end_tail(ida, heard + 1000, kKilled);
  pipeline.finish(heard + 2000);
  ASSERT_NE(pipeline.first_unclean_death(), nullptr);
  EXPECT_EQ(pipeline.first_unclean_death()->rank, 1);
  EXPECT_EQ(of_kind(pipeline.snapshot(), FindingKind::kRankLost).size(), 1u);
}

}  // namespace
}  // namespace stepscope
