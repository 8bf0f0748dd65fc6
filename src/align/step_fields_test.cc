// How two parts of a step join, and that every figure survives the way to a cell and back.
#include "align/step_fields.h"

#include <gtest/gtest.h>

namespace stepscope {
namespace {

TEST(StepFields, PartsOfAStepJoinAsTheTableSays) {
  StepFacts step, later;
  step.gc_ns = 5, later.gc_ns = 7;
  step.samples = 8, later.samples = 16;
  step.tags = 2, later.tags = 4;
  step.signature = 0xf0, later.signature = 0xff;
  step.loss = 2.5;
  step.epoch = 3, later.epoch = 4;
  step.cpu_ns = 100, later.involuntary_switches = 2;
  step.join(later);
  EXPECT_EQ(step.gc_ns, 12);
  EXPECT_EQ(step.samples, 24);
  EXPECT_EQ(step.tags, 6u);
  EXPECT_EQ(step.signature, 0x0fu);
  EXPECT_EQ(step.loss, 2.5) << "the later part tells none";
  EXPECT_EQ(step.epoch, 3);
  EXPECT_EQ(step.cpu_ns, 100);
  EXPECT_EQ(step.involuntary_switches, 2);
  later.loss = 1.5;
  step.join(later);
  EXPECT_EQ(step.loss, 1.5);
}

TEST(StepFields, TheQueueIsTheOneThatTheLongestFetchLeft) {
  FetchStats all;
  all.add({.fetches = 1, .ready = 3, .in_flight = 4, .longest_ns = 10});
  all.add({.fetches = 1, .ready = 0, .in_flight = 2, .longest_ns = 90});
  all.add({.fetches = 1, .ready = 4, .in_flight = 4, .longest_ns = 20});
  EXPECT_EQ(all.fetches, 3u);
  EXPECT_EQ(all.ready, 0u);
  EXPECT_EQ(all.in_flight, 2u);
  EXPECT_EQ(all.longest_ns, 90);
}

TEST(StepFields, SizesNearTheTopStayWhileTotalsGoOn) {
  DeviceMemory top{.allocated_bytes = 900, .peak_bytes = 950, .retries = 1, .near_top = true};
  top.add({.allocated_bytes = 300, .peak_bytes = 990, .held_bytes = 300, .retries = 2});
  EXPECT_EQ(top.allocated_bytes, 900u);
  EXPECT_EQ(top.held_bytes, 300u);
  EXPECT_EQ(top.peak_bytes, 990u);
  EXPECT_EQ(top.retries, 2u);
  EXPECT_TRUE(top.near_top);
  DeviceMemory low{.allocated_bytes = 300, .held_bytes = 300};
  low.add({.allocated_bytes = 900, .near_top = true});
  EXPECT_EQ(low.allocated_bytes, 900u);
  EXPECT_EQ(low.held_bytes, 300u);
  StepFacts step;
  step.join({.memory = top});
  ASSERT_TRUE(step.memory);
  EXPECT_EQ(step.memory->allocated_bytes, 900u);
}

TEST(StepFields, EveryFactComesBackFromItsFigure) {
  StepFacts was;
  was.memory.emplace();
  int next = 0;
#define STEP_FIELD(kind, member, ...) was.member = ++next;
#define FETCH_FIELD(kind, member, ...) was.fetch.member = ++next;
#define MEMORY_FIELD(kind, member, ...) was.memory->member = ++next;
#include "align/step_fields.def"
  CellFigures figures;
  set_figures(figures, was);
  StepFacts is;
  set_facts(is, figures);
#define STEP_FIELD(kind, member, ...) EXPECT_EQ(was.member, is.member) << #member;
#define FETCH_FIELD(kind, member, ...) EXPECT_EQ(was.fetch.member, is.fetch.member) << #member;
#define MEMORY_FIELD(kind, member, ...) EXPECT_EQ(was.memory->member, is.memory->member) << #member;
#include "align/step_fields.def"
}

TEST(StepFields, WhatIsNotKnownStaysUnknown) {
  CellFigures figures;
  set_figures(figures, StepFacts());
  EXPECT_LT(figures.cpu_ms, 0);
  EXPECT_LT(figures.allocated_bytes, 0);
  EXPECT_EQ(figures.epoch, -1);
  EXPECT_FALSE(figures.loss);
  StepFacts back;
  set_facts(back, figures);
  EXPECT_EQ(back.cpu_ns, -1);
  EXPECT_FALSE(back.memory);
  EXPECT_FALSE(back.loss);
}

}  // namespace
}  // namespace stepscope
