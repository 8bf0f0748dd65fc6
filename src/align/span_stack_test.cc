#include "align/span_stack.h"

#include <gtest/gtest.h>

namespace stepscope {
namespace {

OpenSpan span(Kind kind, Category category, uint64_t id = 0) { return {.kind = kind, .id = id, .category = category}; }

Category now(const SpanStack& stack, Category gap = Category::kUnattributed) { return stack.now(gap, true).category; }

TEST(SpanStack, TheInnermostSpanNamesTheTime) {
  SpanStack stack;
  EXPECT_EQ(now(stack), Category::kUnattributed);
  stack.push(span(Kind::kStep, Category::kUserCode));
  EXPECT_EQ(now(stack), Category::kUnattributed);  // a trace_step body is no phase
  stack.push(span(Kind::kForward, Category::kForward, 3));
  stack.push(span(Kind::kUserPhase, Category::kUserCode, 9));
  EXPECT_EQ(now(stack), Category::kUserCode);
  EXPECT_TRUE(stack.pop(Kind::kUserPhase, 9, nullptr));
  EXPECT_EQ(now(stack), Category::kForward);
}

TEST(SpanStack, TheLossLiesBetweenForwardAndBackward) {
  SpanStack stack;
  EXPECT_EQ(now(stack, Category::kForward), Category::kForward);
  stack.push(span(Kind::kOptimizer, Category::kOptimizer));  // a closure inside of it
  EXPECT_EQ(now(stack, Category::kForward), Category::kForward);
  EXPECT_EQ(now(stack), Category::kOptimizer);
}

TEST(SpanStack, WhatCoversAndWhatInterruptsWins) {
  SpanStack stack;
  stack.push(span(Kind::kForward, Category::kForward));
  OpenSpan gc = span(Kind::kGc, Category::kHostPause);
  gc.interrupts = true;
  stack.push(gc);
  stack.push(span(Kind::kUserPhase, Category::kUserCode));
  EXPECT_EQ(now(stack), Category::kHostPause);
  EXPECT_TRUE(stack.covered());
  OpenSpan save = span(Kind::kSave, Category::kCheckpoint);
  save.covers = true;
  stack.push(save);
  EXPECT_EQ(now(stack), Category::kCheckpoint);
}

TEST(SpanStack, AWaitIsAStallOfThePhaseAroundIt) {
  SpanStack stack;
  stack.push(span(Kind::kBackward, Category::kBackward));
  stack.push(span(Kind::kWait, Category::kCommTransfer));
  const Now at = stack.now(Category::kUnattributed, true);
  EXPECT_TRUE(at.stall);
  EXPECT_EQ(at.phase, Category::kBackward);
  SpanStack alone;
  alone.push(span(Kind::kWait, Category::kCommTransfer));
  EXPECT_EQ(alone.now(Category::kLogging, true).phase, Category::kLogging);
}

TEST(SpanStack, TheTailOfBackwardIsAStallWhereItIsSaidToBe) {
  SpanStack stack;
  stack.push(span(Kind::kBackward, Category::kBackward));
  EXPECT_FALSE(stack.now(Category::kUnattributed, true).stall);
  stack.innermost(Kind::kBackward)->own_ended = true;
  EXPECT_TRUE(stack.now(Category::kUnattributed, true).stall);
  EXPECT_FALSE(stack.now(Category::kUnattributed, false).stall);
}

TEST(SpanStack, AnEndClosesWhatNeverEndedInside) {
  SpanStack stack;
  stack.push(span(Kind::kForward, Category::kForward, 1));
  stack.push(span(Kind::kForward, Category::kForward, 2));  // an exception left it
  OpenSpan closed;
  EXPECT_TRUE(stack.pop(Kind::kForward, 1, &closed));
  EXPECT_EQ(closed.id, 1u);
  EXPECT_TRUE(stack.empty());
  EXPECT_FALSE(stack.pop(Kind::kForward, 1, nullptr));
}

TEST(SpanStack, PartsThatAnExceptionLeftAreDroppedWithAllInside) {
  SpanStack stack;
  stack.push(span(Kind::kStep, Category::kUserCode));
  stack.push(span(Kind::kBackward, Category::kBackward));
  stack.push(span(Kind::kUserPhase, Category::kUserCode));
  stack.drop_unfinished_parts();
  EXPECT_TRUE(stack.inside(Kind::kStep));
  EXPECT_FALSE(stack.inside(Kind::kBackward));
  EXPECT_FALSE(stack.inside(Kind::kUserPhase));
}

TEST(SpanStack, DepthIsBounded) {
  SpanStack stack;
  for (uint64_t i = 1; i <= SpanStack::kMaxDepth + 3; ++i) stack.push(span(Kind::kUserPhase, Category::kUserCode, i));
  for (uint64_t i = SpanStack::kMaxDepth + 3; i > 3; --i) EXPECT_TRUE(stack.pop(Kind::kUserPhase, i, nullptr)) << i;
  EXPECT_TRUE(stack.empty());
}

TEST(PhaseNames, WellKnownOnesMapToCategories) {
  EXPECT_EQ(category_of_phase_name("Validation"), Category::kValidation);
  EXPECT_EQ(category_of_phase_name("save"), Category::kCheckpoint);
  EXPECT_EQ(category_of_phase_name("mixup"), Category::kUserCode);
}

}  // namespace
}  // namespace stepscope
