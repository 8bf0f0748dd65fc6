// What the ranks of one host cost each other, from the processes' names of their host to the range of a finding.
#include <gtest/gtest.h>

#include "align/config_fact.h"
#include "diagnose/engine.h"
#include "diagnose/host_view.h"
#include "host_facts_builder.h"

namespace stepscope {
namespace {

constexpr int64_t kMs = 1'000'000;

// Two ranks; rank 1 sleeps 30 ms before its forward in every step, the work of both is 20 ms, alone as it were.
Snapshot run(const std::vector<std::string>& hosts, const std::map<std::string, HostLoad>& loads) {
  Engine engine({});
  for (const auto& [host, load] : loads) engine.set_host_load(host, load);
  engine.set_group(7, "default_pg", {0, 1});
  for (int rank = 0; rank < 2; ++rank) {
    RankLife life;
    life.rank = rank, life.world_size = 2, life.hostname = hosts[static_cast<size_t>(rank)], life.steps = 64;
    engine.set_life(rank, life);
  }
  for (uint32_t number = 0; number < 64; ++number)
    for (int rank = 0; rank < 2; ++rank) {
      RankStep s;
      s.step = number;
      s.begin_ns = number * 52 * kMs + 1, s.end_ns = s.begin_ns + 52 * kMs;
      s.own[index(Category::kInputWait)] = rank == 1 ? 30 * kMs : 0;
      s.own[index(Category::kForward)] = 20 * kMs;
      s.segments = {s.own, {}};
      s.cpu_ns = 20 * kMs;
      s.stalls = {{7, number, s.end_ns - (rank == 1 ? 2 : 32) * kMs, (rank == 1 ? 2 : 32) * kMs}};
      engine.feed(rank, s);
    }
  engine.finish();
  return engine.snapshot();
}

const Saving* saving(const Snapshot& s) {
  for (const Finding& f : s.findings)
    if (f.kind == FindingKind::kInputStraggler && f.saves) return &*f.saves;
  return nullptr;
}

// 52 ms become 22; where both share one core, 42. What is left may get quicker by a tenth of what goes.
TEST(HostSharing, RanksOfOneHostMayShareItsCores) {
  const Snapshot s = run({"a", "a"}, {{"a", {.cores = 2}}});
  const Saving* saves = saving(s);
  ASSERT_TRUE(saves);
  EXPECT_NEAR(saves->share, 30.0 / 52, 0.01);
  EXPECT_NEAR(*saves->high, 33.0 / 52, 0.02);
  EXPECT_NEAR(*saves->low, 10.0 / 52, 0.03);
  EXPECT_NE(saves->caveat.find("slow each other down"), std::string::npos);
}

TEST(HostSharing, OnAHostWithCoresToSpareTheRangeIsNarrow) {
  const Snapshot s = run({"a", "a"}, {{"a", {.cores = 64}}});
  const Saving* saves = saving(s);
  ASSERT_TRUE(saves);
  EXPECT_NEAR(*saves->low, 30.0 / 52, 0.02);
  EXPECT_NEAR(*saves->high, 33.0 / 52, 0.02);
  EXPECT_EQ(saves->caveat, "");
}

TEST(HostSharing, RanksOfTwoHostsShareNothing) {
  const Snapshot s = run({"a", "b"}, {{"a", {.cores = 1}}, {"b", {.cores = 1}}});
  const Saving* saves = saving(s);
  ASSERT_TRUE(saves);
  EXPECT_NEAR(*saves->low, 30.0 / 52, 0.02);
  EXPECT_NEAR(*saves->high, 33.0 / 52, 0.02);
}

TEST(HostSharing, OtherProgramsOnTheHostAreSaid) {
  const Snapshot s = run({"a", "b"}, {{"a", {.cores = 2, .others_cores = 1, .run_delay = 0.1}}});
  const Saving* saves = saving(s);
  ASSERT_TRUE(saves);
  EXPECT_NEAR(*saves->low, 1 - (22.0 / 52) * 1.1, 0.02);
  EXPECT_NEAR(*saves->high, 1 - (19.0 / 52) * 0.9, 0.02);
  EXPECT_NE(saves->caveat.find("other programs"), std::string::npos);
}

// 8 cores of which a quota leaves 4; 5.6 are busy, the ranks use 1.5 each and their workers 0.25.
TEST(HostSharing, TheLoadIsReadFromWhatWasSampled) {
  HostFacts facts = testing::healthy(2);
  CgroupFacts quota;
  quota.cpu_limit_cores = 4;
  facts.cgroups.push_back(quota);
  facts.host.cpu_share = testing::flat(120, 0.7);
  for (RankProcess& rank : facts.ranks) {
    rank.cpu_cores = testing::flat(120, 1.5);
    rank.worker_cpu_cores = testing::flat(120, 0.25);
    rank.run_delay_share = testing::flat(120, 0.12);
  }
  const HostLoad load = host::load_of(facts);
  EXPECT_DOUBLE_EQ(load.cores, 4);
  EXPECT_DOUBLE_EQ(load.rank_cores, 1.5);
  EXPECT_NEAR(load.worker_cores, 0.5, 1e-9);
  EXPECT_NEAR(load.others_cores, 5.6 - 3.5, 1e-9);
  EXPECT_NEAR(load.run_delay, 0.12, 1e-9);
}

// One rank takes a batch of small samples apart in its own thread, which has a core for `busy` of the time.
CauseWord cause_of_loading(double busy, const std::map<std::string, HostLoad>& loads) {
  Engine engine({});
  for (const auto& [host, load] : loads) engine.set_host_load(host, load);
  RankLife life;
  life.rank = 0, life.world_size = 1, life.hostname = "a", life.steps = 80, life.training_loaders = {5};
  life.configuration = {parse_config_fact(5, "loader|workers=0;batch=1024;whole_batches=0;epochs=1")};
  engine.set_life(0, life);
  for (uint32_t number = 0; number < 80; ++number) {
    RankStep s;
    s.step = number;
    s.begin_ns = number * 20 * kMs + 1, s.end_ns = s.begin_ns + 20 * kMs;
    s.own[index(Category::kInputWait)] = 12 * kMs;
    s.own[index(Category::kForward)] = 8 * kMs;
    s.segments = {s.own};
    s.cpu_ns = static_cast<int64_t>(busy * 20 * kMs);
    engine.feed(0, s);
  }
  engine.finish();
  for (const Finding& f : engine.snapshot().findings)
    if (f.kind == FindingKind::kInputBound) return f.cause;
  return {};
}

TEST(HostSharing, ALoaderThatHasNoCoreDoesNotWaitForStorage) {
  EXPECT_EQ(cause_of_loading(0.95, {}), Cause::kPerSampleOverhead);
  EXPECT_EQ(cause_of_loading(0.6, {}), Cause::kInProcess);
  EXPECT_EQ(cause_of_loading(0.6, {{"a", {.cores = 2, .run_delay = 0.35}}}), Cause::kPerSampleOverhead);
  EXPECT_EQ(cause_of_loading(0.6, {{"a", {.cores = 2, .run_delay = 0.05}}}), Cause::kInProcess);
}

// Rank 1 takes `forward_ms` for the forward that takes rank 0 20 ms; 300 ms of a step are something else.
Finding late_in_forward(int64_t forward_ms, const HostLoad& load) {
  Engine engine({});
  engine.set_host_load("a", load);
  engine.set_group(7, "default_pg", {0, 1});
  for (int rank = 0; rank < 2; ++rank) {
    RankLife life;
    life.rank = rank, life.world_size = 2, life.hostname = "a", life.steps = 64;
    engine.set_life(rank, life);
  }
  const int64_t late_ms = forward_ms - 20;
  for (uint32_t number = 0; number < 64; ++number)
    for (int rank = 0; rank < 2; ++rank) {
      const int64_t stall = (rank == 1 ? 1 : 1 + late_ms) * kMs, wall = (80 + late_ms + 1) * kMs;
      RankStep s;
      s.step = number;
      s.begin_ns = number * wall + 1, s.end_ns = s.begin_ns + wall;
      s.own[index(Category::kForward)] = (rank == 1 ? forward_ms : 20) * kMs;
      s.own[index(Category::kBackward)] = 60 * kMs;
      s.segments = {s.own, {}};
      s.stalls = {{7, number, s.end_ns - stall, stall}};
      engine.feed(rank, s);
    }
  engine.finish();
  for (const Finding& f : engine.snapshot().findings)
    if (f.kind == FindingKind::kComputeStraggler) return f;
  return {};
}

TEST(HostSharing, WhatOtherProgramsMayCostIsNoStraggler) {
  EXPECT_EQ(late_in_forward(30, {.cores = 2}).severity, Severity::kWarn);                       // nobody else is there
  EXPECT_EQ(late_in_forward(30, {.cores = 2, .others_cores = 0.3}).severity, Severity::kWarn);  // 0.3 cores cost 30 %
  const Finding f = late_in_forward(30, {.cores = 2, .others_cores = 0.6});
  EXPECT_EQ(f.severity, Severity::kInfo);
  EXPECT_NE(f.title.find("other programs"), std::string::npos);
  EXPECT_EQ(late_in_forward(30, {.cores = 64, .others_cores = 20}).severity, Severity::kWarn);  // cores to spare
  EXPECT_EQ(late_in_forward(30, {.cores = 32, .others_cores = 28}).severity, Severity::kInfo);
  EXPECT_EQ(late_in_forward(55, {.cores = 32, .others_cores = 28}).severity,
            Severity::kCrit);  // more than a core's half
}

}  // namespace
}  // namespace stepscope
