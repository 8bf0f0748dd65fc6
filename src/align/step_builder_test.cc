// What a rank tells beside its loop: threads, memory, facts of its set-up; and any list of events at all keeps the
// ledger closed.
#include "align/step_builder.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "training_loop.h"

namespace stepscope {
namespace {

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

// A resume draws and drops what was trained on: the first step begins with the batch that it uses.
TEST(StepBuilder, BatchesThatAreDroppedBeforeTheFirstStep) {
  Loop l;
  l.epoch(1, 16).pass(500);
  for (int i = 0; i < 10; ++i) l.fetch().pass(20);
  for (int i = 0; i < 4; ++i) l.fetch().forward().backward().optimizer();
  const auto steps = l.finish();
  ASSERT_EQ(steps.size(), 4u);
  expect_closed_budget(steps);
  EXPECT_EQ(steps[0].own[index(Category::kInputWait)], steps[2].own[index(Category::kInputWait)]);
  EXPECT_EQ(steps[0].samples, 16);
  const RankLife& life = l.builder.life();
  EXPECT_EQ(life.dropped_batches, 10u);
  EXPECT_EQ(life.dropped_ns, 10 * 120'000);
  EXPECT_EQ(life.startup[index(Category::kStartup)], 500'000 + 10 * 120'000);
  EXPECT_EQ(life.first_step_ns, steps[0].begin_ns);
}

TEST(StepBuilder, BatchesOfAnEvaluationBeforeTheFirstStepAreNotDropped) {
  Loop l;
  for (int i = 0; i < 3; ++i) l.fetch(2).forward(1, false);
  for (int i = 0; i < 4; ++i) l.fetch().forward().backward().optimizer();
  const auto steps = l.finish();
  EXPECT_EQ(steps.size(), 4u);
  expect_closed_budget(steps);
  EXPECT_EQ(l.builder.life().dropped_batches, 0u);
}

// Torch before 2.14 names the groups but tells of no collective: what DDP waits for at the end of backward is a stall.
TEST(StepBuilder, TheTailOfBackwardIsAStallWhereNobodyTellsOfCollectives) {
  Loop l;
  l.builder.life().world_size = 2;
  l.builder.push_name(static_cast<uint16_t>(NameKind::kGroup), 5, "gloo|default_pg|0-1");
  for (int i = 0; i < 4; ++i) {
    l.forward().begin(Kind::kBackward, 1).pass(2000).mark(Kind::kBackwardOwn).pass(700);
    l.end(Kind::kBackward, 1).optimizer();
  }
  const auto steps = l.finish();
  ASSERT_EQ(steps.size(), 4u);
  expect_closed_budget(steps);
  EXPECT_EQ(steps[2].stall_ns(), 700'000);
}

}  // namespace
}  // namespace stepscope
