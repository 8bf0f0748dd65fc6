#include <gtest/gtest.h>

#include <cmath>

#include "host_rules.h"

namespace stepscope {
namespace {

using namespace testing;

TEST(HostMemoryCreep, TellsMegabytesPerStepAndTimeToLimit) {
  HostFacts f = healthy(3);
  f.ranks[1].held_bytes = series(120, [](double s) { return 500e6 + 1.5e6 * s; });  // 0.3 MB per step
  const auto all = judge(f);
  ASSERT_EQ(kinds(all), "HOST_MEMORY_CREEP/ ");
  EXPECT_EQ(all[0].ranks, std::vector<int>{1});
  EXPECT_EQ(all[0].severity, Severity::kWarn);
  double per_step = 0, eta = 0;
  for (const Evidence& e : all[0].evidence) {
    if (e.name == "bytes_per_step") per_step = *e.value;
    if (e.name == "seconds_to_limit") eta = *e.value;
  }
  EXPECT_NEAR(per_step, 0.3e6, 0.3e4);
  EXPECT_NEAR(eta, 48e9 / 1.5e6, 400);
  EXPECT_LE(all[0].first_step, 2);
}

std::optional<double> fact(const Finding& f, std::string_view name) {
  for (const Evidence& e : f.evidence)
    if (e.name == name) return e.value;
  return std::nullopt;
}

TEST(HostMemoryCreep, TellsBetweenWhichTimesTheLimitIsReached) {
  HostFacts f = healthy(3);
  f.ranks[1].held_bytes = series(120, [](double s) { return 500e6 + 1.5e6 * s + 10e6 * std::sin(s); });
  const Finding creep = judge(f).at(0);
  const double low = fact(creep, "seconds_to_limit_low").value(), high = fact(creep, "seconds_to_limit_high").value();
  EXPECT_LT(low, 48e9 / 1.5e6);
  EXPECT_GT(high, 48e9 / 1.5e6);
  EXPECT_LT(high, 1.2 * low);
  EXPECT_NEAR(fact(creep, "steps_to_limit").value(), 48e9 / 0.3e6, 0.1 * 48e9 / 0.3e6);
  EXPECT_EQ(fact(creep, "limit_bytes"), f.memory_total_bytes);
}

// What ranks share is filled by all of them, and what is full first counts: not the host where a group is tighter.
TEST(HostMemoryCreep, RanksOfOneGroupFillItTogether) {
  HostFacts f = healthy(3);
  for (const size_t r : {size_t{0}, size_t{1}})
    f.ranks[r].held_bytes = series(120, [](double s) { return 500e6 + 2e6 * s; });
  CgroupFacts& g = f.cgroups.emplace_back();
  g.memory_limit_bytes = 30e9;
  g.memory_used_bytes = flat(120, 10e9);
  f.ranks[0].cgroup = f.ranks[1].cgroup = 0;
  const Finding both = judge(f).at(0);
  EXPECT_NEAR(fact(both, "seconds_to_limit").value(), 20e9 / 4e6, 50);
  EXPECT_EQ(fact(both, "limit_bytes"), 30e9);
  f.ranks[1].cgroup = -1;  // elsewhere: the group is filled by one, the host by both
  const Finding apart = judge(f).at(0);
  EXPECT_NEAR(fact(apart, "seconds_to_limit").value(), 20e9 / 2e6, 100);
}

// A heap that settles under batches of changing size grows by a fraction of what it held, for some hundred steps.
TEST(HostMemoryCreep, SmallAndYoungIsANotice) {
  HostFacts f = healthy(2, 40);  // 185 steps
  f.ranks[1].held_bytes = series(40, [](double s) { return 400e6 + 4.5e6 * s; });
  const auto young = judge(f);
  ASSERT_EQ(kinds(young), "HOST_MEMORY_CREEP/ ");
  EXPECT_EQ(young[0].severity, Severity::kInfo);
  f.host.memory_available_bytes = flat(40, 400e6);
  const auto full = judge(f);  // nearly
  ASSERT_EQ(kinds(full), "HOST_MEMORY_PRESSURE/near_limit HOST_MEMORY_CREEP/ ");
  EXPECT_EQ(full[1].severity, Severity::kCrit);
  f = healthy(2, 40);
  f.ranks[1].held_bytes = series(40, [](double s) { return 400e6 + 12e6 * s; });
  EXPECT_EQ(judge(f).at(0).severity, Severity::kWarn);  // large
  f = healthy(2, 100);
  f.ranks[1].held_bytes = series(100, [](double s) { return 4000e6 + 4.5e6 * s; });
  EXPECT_EQ(judge(f).at(0).severity, Severity::kWarn);  // long
}

TEST(HostMemoryCreep, IsCriticalWhenTheLimitIsWithinReach) {
  HostFacts f = healthy(2);
  f.ranks[0].held_bytes = series(120, [](double s) { return 500e6 + 5e6 * s; });
  CgroupFacts& g = f.cgroups.emplace_back();
  g.memory_limit_bytes = 12e9;
  g.memory_used_bytes = flat(120, 6e9);
  f.ranks[0].cgroup = 0;
  EXPECT_EQ(judge(f).at(0).severity, Severity::kCrit);  // 6 GB at 5 MB/s: 20 minutes
  g.memory_limit_bytes = 30e9;
  EXPECT_EQ(judge(f).at(0).severity, Severity::kWarn);
}

TEST(HostMemoryCreep, OnBothSidesOfItsSize) {
  HostFacts f = healthy(2);
  f.ranks[0].held_bytes = series(120, [](double s) { return 500e6 + 0.40e6 * s; });
  EXPECT_SILENT(f);
  f.ranks[0].held_bytes = series(120, [](double s) { return 500e6 + 0.55e6 * s; });
  EXPECT_EQ(kinds(judge(f)), "HOST_MEMORY_CREEP/ ");
}

TEST(HostMemoryCreep, NeedsAHundredStepsAfterWarmUp) {
  HostFacts f = healthy(1, 31, 5);  // 140 steps in all
  f.ranks[0].held_bytes = series(31, [](double s) { return 500e6 + 10e6 * s; });
  EXPECT_SILENT(f);
  f = healthy(1, 36, 5);  // 165
  f.ranks[0].held_bytes = series(36, [](double s) { return 500e6 + 10e6 * s; });
  EXPECT_EQ(kinds(judge(f)), "HOST_MEMORY_CREEP/ ");
}

TEST(HostMemoryCreep, WithoutStepsItIsToldPerSecondAndLater) {
  HostFacts f = healthy(1, 150, 0);
  f.ranks[0].held_bytes = series(150, [](double s) { return 500e6 + 1e6 * s; });
  EXPECT_SILENT(f);
  f = healthy(1, 200, 0);
  f.ranks[0].held_bytes = series(200, [](double s) { return 500e6 + 1e6 * s; });
  const auto all = judge(f);
  ASSERT_EQ(kinds(all), "HOST_MEMORY_CREEP/ ");
  EXPECT_EQ(all[0].first_step, -1);
  EXPECT_NE(all[0].title.find("/s"), std::string::npos);
}

TEST(HostMemoryCreep, LookAlikesStaySilent) {
  const std::vector<std::pair<const char*, At>> cases = {
      {"one jump", [](double s) { return s < 60 ? 500e6 : 2500e6; }},
      {"two jumps", [](double s) { return 500e6 + 400e6 * (s > 30) + 400e6 * (s > 70); }},
      {"warm-up that saturates", [](double s) { return 500e6 + 900e6 * (1 - std::exp(-s / 25)); }},
      {"a cache that fills", [](double s) { return 500e6 + 10e6 * std::min(s, 60.0); }},
      {"sawtooth", [](double s) { return 500e6 + 20e6 * std::fmod(s, 15); }},
      {"slow sawtooth", [](double s) { return 500e6 + 10e6 * std::fmod(s + 20, 60); }},
      {"shrinking", [](double s) { return 900e6 - 2e6 * s; }},
      {"noise", [](double s) { return 500e6 + 30e6 * std::sin(s * 12.9898); }},
  };
  for (const auto& [name, value] : cases) {
    HostFacts f = healthy(2);
    f.ranks[0].held_bytes = series(120, value);
    EXPECT_EQ(kinds(judge(f)), "") << name;
  }
}

TEST(HostMemoryCreep, ALeakThatBeginsLateIsFound) {
  HostFacts f = healthy(2, 300);
  f.ranks[1].held_bytes = series(300, [](double s) { return 500e6 + 3e6 * std::max(0.0, s - 160); });
  const auto all = judge(f);
  ASSERT_EQ(kinds(all), "HOST_MEMORY_CREEP/ ");
  EXPECT_GT(all[0].first_step, 600);
  EXPECT_LT(all[0].first_step, 900);
}

TEST(HostMemoryCreep, MemoryFreedAtTheEndOfTheJobDoesNotHideIt) {
  HostFacts f = healthy(1);
  f.ranks[0].steps = series(120, [](double s) { return 5 * std::min(s, 100.0); });
  f.ranks[0].held_bytes = series(120, [](double s) { return s <= 101 ? 500e6 + 2e6 * s : 100e6; });
  EXPECT_EQ(kinds(judge(f)), "HOST_MEMORY_CREEP/ ");
}

// The last steps and the end of the loop, which frees what they kept, lie between two samples.
TEST(HostMemoryCreep, NorDoesASampleThatSawTheLastStepAfterTheEnd) {
  HostFacts f = healthy(1, 60);
  f.ranks[0].steps = series(60, [](double s) { return 5 * std::clamp(s - 2, 0.0, 50.0); });
  f.ranks[0].held_bytes = series(60, [](double s) { return s < 52 ? 700e6 + 40e6 * s : 700e6; });
  EXPECT_EQ(kinds(judge(f)), "HOST_MEMORY_CREEP/ ");
}

TEST(HostMemoryCreep, AStepThatLastsManySamplesIsNoStaircase) {
  HostFacts f = healthy(1, 3000, 0.1);  // ten seconds a step
  f.ranks[0].held_bytes = series(3000, [](double s) { return 500e6 + 3e6 * std::floor(std::max(0.0, s - 2) / 10); });
  const auto all = judge(f);
  ASSERT_EQ(kinds(all), "HOST_MEMORY_CREEP/ ");
  EXPECT_EQ(all[0].ranks, std::vector<int>{0});
}

TEST(HostMemoryCreep, SeveralRanksAreOneFinding) {
  HostFacts f = healthy(4);
  for (int r : {0, 2})
    f.ranks[static_cast<size_t>(r)].held_bytes = series(120, [](double s) { return 500e6 + 2e6 * s; });
  const auto all = judge(f);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].ranks, (std::vector<int>{0, 2}));
  EXPECT_NE(all[0].title.find("Ranks 0, 2"), std::string::npos);
}

TEST(MemoryStaircase, StairsThatGoOnAreNamedAndStairsThatStoppedAreNot) {
  HostFacts f = healthy(2, 200);
  f.ranks[0].held_bytes = series(200, [](double s) { return 500e6 + 80e6 * std::floor(s / 30); });
  auto all = judge(f);
  ASSERT_EQ(kinds(all), "MEMORY_STAIRCASE/ ");
  EXPECT_EQ(all[0].ranks, std::vector<int>{0});
  EXPECT_EQ(all[0].severity, Severity::kWarn);
  EXPECT_NE(all[0].title.find("76.3 MiB"), std::string::npos) << all[0].title;
  f.ranks[0].held_bytes = series(200, [](double s) { return 500e6 + 80e6 * std::min(std::floor(s / 20), 4.0); });
  EXPECT_SILENT(f);
}

TEST(HostMemoryCreep, ARecordedLeakIsFoundInItsRankOnly) {
  const auto all = judge(recorded("leak"));
  const Finding* f = find(all, FindingKind::kHostMemoryCreep);
  ASSERT_TRUE(f) << kinds(all);
  EXPECT_EQ(f->ranks, std::vector<int>{1});
  EXPECT_EQ(find(all, FindingKind::kMemoryStaircase), nullptr);
}

// Live: judged after every sample, a finding must not appear where there is no leak, nor miss one at the end.
TEST(HostMemoryCreep, RecordedHealthyJobsStaySilentAtEveryMoment) {
  for (const char* name : {"lazy_state", "copy_on_write", "numpy_samples"}) {
    const HostFacts whole = recorded(name);
    const size_t n = whole.ranks.at(0).held_bytes.points.size();
    ASSERT_GT(n, 10u);
    for (size_t k = 1; k <= n; ++k) {
      HostFacts part = whole;
      for (RankProcess& r : part.ranks) {
        r.held_bytes.points.resize(std::min(k, r.held_bytes.points.size()));
        r.steps.points.resize(std::min(k, r.steps.points.size()));
      }
      const auto all = judge(part);
      EXPECT_EQ(find(all, FindingKind::kHostMemoryCreep), nullptr) << name << " at sample " << k;
      EXPECT_EQ(find(all, FindingKind::kMemoryStaircase), nullptr) << name << " at sample " << k;
    }
  }
}

}  // namespace
}  // namespace stepscope
