// Samples, tokens, FLOPs per second and MFU in the snapshot, from steps of known length.
#include <gtest/gtest.h>

#include "diagnose/engine.h"

namespace stepscope {
namespace {

constexpr int64_t kStepNs = 100'000'000;  // ten steps per second

Snapshot run(EngineOptions options, double flops, const std::string& device) {
  Engine engine(options);
  for (int rank = 0; rank < 2; ++rank) {
    RankLife life;
    life.rank = rank, life.world_size = 2, life.device = device;
    engine.set_life(rank, life);
  }
  for (uint32_t step = 0; step < 40; ++step)
    for (int rank = 0; rank < 2; ++rank) {
      RankStep s;
      s.step = step;
      s.begin_ns = step * kStepNs, s.end_ns = s.begin_ns + kStepNs;
      s.own[index(Category::kForward)] = kStepNs;
      s.segments.push_back(s.own);
      s.samples = 8, s.tokens = 1024, s.flops = flops;
      engine.feed(rank, s);
    }
  engine.finish();
  return engine.snapshot();
}

TEST(Throughput, RatesOfTheJobAreSumsOverRanks) {
  const Snapshot s = run({}, 0, "cpu");
  EXPECT_NEAR(*s.throughput.at("samples_per_s"), 160, 0.1);
  EXPECT_NEAR(*s.throughput.at("tokens_per_s"), 20480, 10);
  EXPECT_NEAR(*s.ranks[1].samples_per_s, 80, 0.1);
  EXPECT_EQ(s.throughput.at("flops_per_s"), std::nullopt);
  EXPECT_EQ(s.throughput.at("mfu"), std::nullopt);
}

TEST(Throughput, WhatHalfOfTheRanksDidIsNoFigureOfTheRun) {
  Engine engine({});
  for (uint32_t step = 0; step < 40; ++step) {
    RankStep s;
    s.step = step;
    s.begin_ns = step * 100'000'000, s.end_ns = s.begin_ns + 100'000'000;
    s.own[index(Category::kForward)] = 100'000'000;
    s.segments.push_back(s.own);
    s.samples = 8, s.flops = 40e12;
    RankLife life;
    life.rank = 0, life.world_size = 2, life.steps = step + 1, life.device = "cuda:0 NVIDIA H100 80GB HBM3";
    engine.set_life(0, life);
    engine.feed(0, s);
  }
  engine.finish();
  const Snapshot s = engine.snapshot();
  EXPECT_EQ(s.throughput.at("samples_per_s"), std::nullopt);
  EXPECT_EQ(s.throughput.at("flops_per_s"), std::nullopt);
  EXPECT_NEAR(*s.throughput.at("mfu"), 400 / 989.4, 0.002);  // a ratio holds for those seen
  EXPECT_NEAR(*s.ranks[0].samples_per_s, 80, 0.1);
  EXPECT_EQ(s.run.ranks_seen, 1);
}

TEST(Throughput, MfuIsOverThePeakOfTheDevice) {
  const Snapshot s = run({}, 40e12, "cuda:0 NVIDIA H100 80GB HBM3");  // 400 TFLOP/s of 989
  EXPECT_NEAR(*s.throughput.at("flops_per_s"), 800e12, 1e12);
  EXPECT_NEAR(*s.throughput.at("mfu"), 400 / 989.4, 0.002);
  EXPECT_NEAR(*s.ranks[0].mfu, 400 / 989.4, 0.002);
}

TEST(Throughput, WhatTheUserTellsIsTaken) {
  EngineOptions options;
  options.flops_per_step = 10e9;
  options.peak_flops = 1e12;
  const Snapshot s = run(options, 0, "cpu");
  EXPECT_NEAR(*s.throughput.at("mfu"), 0.1, 0.001);
}

TEST(Throughput, AnUnknownPeakGivesNoMfu) {
  const Snapshot s = run({}, 40e12, "cuda:0 NVIDIA Nothing");
  EXPECT_NE(s.throughput.at("flops_per_s"), std::nullopt);
  EXPECT_EQ(s.throughput.at("mfu"), std::nullopt);
  EXPECT_EQ(s.ranks[0].mfu, std::nullopt);
}

TEST(Advice, AnUnknownNameInTheListIsSaid) {
  EngineOptions options;
  options.silence = {"batchnorm", "no_such_thing"};
  const Snapshot s = run(options, 0, "cpu");
  ASSERT_EQ(s.observer.notes.size(), 1u);
  EXPECT_NE(s.observer.notes[0].find("no_such_thing"), std::string::npos);
}

}  // namespace
}  // namespace stepscope
