// Samples and tokens of a step: as the program logs them, else as batches are counted.
#include "align/step_builder.h"

#include <gtest/gtest.h>

#include "training_loop.h"

namespace stepscope {
namespace {

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

// What a model is given in training counts, whoever made the batch; what it is given in evaluation does not.
TEST(Throughput, ElementsOfForwardInputsAddUpPerStep) {
  Loop l;
  const auto forward = [&](uint64_t elements, bool grad) {
    l.begin(Kind::kForward, 1, grad ? kForwardGrad | kForwardTraining : 0, elements).pass(1000).end(Kind::kForward, 1);
  };
  for (int i = 0; i < 4; ++i) {
    forward(640, true);
    l.backward();
    forward(1280, true);
    l.backward().optimizer();
    forward(99, false);
  }
  const auto steps = l.finish();
  ASSERT_GE(steps.size(), 3u);
  EXPECT_EQ(steps[1].input_elements, 1920);
  EXPECT_EQ(steps[2].input_elements, 1920);
}

}  // namespace
}  // namespace stepscope
