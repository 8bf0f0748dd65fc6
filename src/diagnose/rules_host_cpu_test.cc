#include <gtest/gtest.h>

#include <cmath>

#include "host_rules.h"

namespace stepscope {
namespace {

using namespace testing;

TEST(HighCpu, OnBothSidesOfItsThreshold) {
  HostFacts f = healthy();
  f.host.cpu_share = flat(120, 0.89);
  EXPECT_SILENT(f);
  f.host.cpu_share = flat(120, 0.91);
  const auto all = judge(f);
  ASSERT_EQ(kinds(all), "HIGH_CPU/other_processes ");  // the ranks use two of eight cores
  EXPECT_EQ(all[0].severity, Severity::kInfo);         // nobody waits: busy is not a fault
  EXPECT_TRUE(all[0].job_scope);
  EXPECT_TRUE(all[0].ranks.empty());
  EXPECT_EQ(system_section(f, all).diagnosis, FindingKind::kHighCpu);
}

TEST(CpuContention, OnAFullHostTheTimeThatRanksWaitIsItsCost) {
  HostFacts f = healthy(2);
  f.host.cpu_share = flat(120, 1.0);
  for (RankProcess& r : f.ranks) {
    r.run_delay_share = flat(120, 0.17);
    r.cpu_cores = flat(120, 4);
  }
  const auto all = judge(f);
  ASSERT_EQ(kinds(all), "CPU_CONTENTION/own_processes HIGH_CPU/own_processes ");
  EXPECT_NEAR(all[0].cost_share, 0.12, 1e-9);
  EXPECT_EQ(all[0].severity, Severity::kWarn);
  EXPECT_TRUE(all[0].job_scope);
  EXPECT_EQ(all[1].cost_share, 0);
  EXPECT_EQ(all[1].severity, Severity::kInfo);
  for (RankProcess& r : f.ranks) r.run_delay_share = flat(120, 0.30);
  EXPECT_EQ(judge(f).at(0).severity, Severity::kCrit);
  for (RankProcess& r : f.ranks) r.cpu_cores = flat(120, 1);
  EXPECT_EQ(kinds(judge(f)), "CPU_CONTENTION/other_processes HIGH_CPU/other_processes ");
}

TEST(HighCpu, StartUpAndTeardownDoNotCount) {
  HostFacts f = healthy();
  // Imports keep the cores busy for 70 of 120 seconds, then the steps begin.
  f.host.cpu_share = series(120, [](double s) { return s < 70 ? 1.0 : 0.3; });
  for (RankProcess& r : f.ranks) r.steps = series(120, [](double s) { return s < 71 ? 0.0 : s - 70; });
  EXPECT_SILENT(f);
  // The last step is at second 40, then the job writes its results.
  f.host.cpu_share = series(120, [](double s) { return s < 45 ? 0.3 : 1.0; });
  for (RankProcess& r : f.ranks) r.steps = series(120, [](double s) { return std::min(s, 40.0); });
  EXPECT_SILENT(f);
}

TEST(CpuContention, RanksThatAnotherAgentFollowsAreNoOtherPrograms) {
  HostFacts f = healthy(2);
  f.host.cpu_share = flat(120, 1.0);
  for (RankProcess& r : f.ranks) r.run_delay_share = flat(120, 0.3);
  ASSERT_EQ(kinds(judge(f)), "CPU_CONTENTION/other_processes HIGH_CPU/other_processes ");
  f.more_ranks = true;
  EXPECT_EQ(kinds(judge(f)), "CPU_CONTENTION/ HIGH_CPU/ ");
}

TEST(CpuContention, NamesTheRankThatWaitsForItsCore) {
  HostFacts f = healthy(4);
  f.ranks[2].run_delay_share = flat(120, 0.45);
  f.ranks[2].affinity_cores = 1;
  const auto all = judge(f);
  ASSERT_EQ(kinds(all), "CPU_CONTENTION/ ");
  EXPECT_EQ(all[0].ranks, std::vector<int>{2});
  EXPECT_EQ(all[0].severity, Severity::kCrit);
  EXPECT_NEAR(all[0].cost_share, 0.40, 1e-9);
  EXPECT_EQ(all[0].first_step, 0);
  EXPECT_EQ(all[0].section, SectionName::kProcess);
}

TEST(CpuContention, OnBothSidesOfItsThreshold) {
  HostFacts f = healthy(4);
  f.ranks[1].run_delay_share = flat(120, 0.14);
  EXPECT_SILENT(f);
  f.ranks[1].run_delay_share = flat(120, 0.16);
  EXPECT_EQ(kinds(judge(f)), "CPU_CONTENTION/ ");
}

TEST(CpuContention, WhatAllRanksShareIsNoCulprit) {
  HostFacts f = healthy(4);
  for (RankProcess& r : f.ranks) r.run_delay_share = flat(120, 0.30);
  const auto all = judge(f);
  ASSERT_EQ(kinds(all), "CPU_CONTENTION/too_few_cores ");
  EXPECT_TRUE(all[0].job_scope);
  EXPECT_TRUE(all[0].ranks.empty());
}

TEST(CpuContention, AFewBadSecondsAreNoContention) {
  HostFacts f = healthy(4);
  f.ranks[1].run_delay_share = series(120, [](double s) { return s > 50 && s < 80 ? 0.8 : 0.03; });
  EXPECT_SILENT(f);
}

TEST(CpuContention, TakingTurnsIsNoContentionOfOneRank) {
  HostFacts f = healthy(2);
  f.ranks[0].run_delay_share = series(120, [](double s) { return std::fmod(s, 2) < 1 ? 0.6 : 0.02; });
  f.ranks[1].run_delay_share = series(120, [](double s) { return std::fmod(s, 2) < 1 ? 0.02 : 0.6; });
  for (const Finding& x : judge(f)) EXPECT_TRUE(x.ranks.empty()) << x.title;
}

TEST(CpuContention, BeginsWhereTheNeighbourArrived) {
  HostFacts f = healthy(3);
  f.ranks[0].run_delay_share = series(120, [](double s) { return s >= 40 ? 0.5 : 0.03; });
  const auto all = judge(f);
  ASSERT_EQ(kinds(all), "CPU_CONTENTION/ ");
  EXPECT_NEAR(static_cast<double>(all[0].first_step), 38 * 5, 10);
  EXPECT_NEAR(all[0].cost_share, 0.45 * 0.66, 0.2 * 0.3);  // of the whole run: it came after a third of it
  EXPECT_EQ(all[0].pattern, "");
}

TEST(CpuContention, AQuotaIsNamedWithItsRanks) {
  HostFacts f = healthy(2);
  CgroupFacts& g = f.cgroups.emplace_back();
  g.version = 2;
  g.cpu_limit_cores = 2;
  for (RankProcess& r : f.ranks) r.cgroup = 0;
  g.throttled_period_share = flat(120, 0.09);
  EXPECT_SILENT(f);
  g.throttled_period_share = flat(120, 0.5);
  for (RankProcess& r : f.ranks) r.run_delay_share = flat(120, 0.4);
  auto all = judge(f);
  ASSERT_EQ(kinds(all), "CPU_CONTENTION/cgroup_quota ");
  EXPECT_TRUE(all[0].job_scope);
  EXPECT_EQ(all[0].severity, Severity::kCrit);
  f.ranks[1].cgroup = -1;
  f.ranks[1].run_delay_share = flat(120, 0.03);
  all = judge(f);
  ASSERT_EQ(kinds(all), "CPU_CONTENTION/cgroup_quota ");
  EXPECT_EQ(all[0].ranks, std::vector<int>{0});
}

TEST(CpuContention, WorkersWithoutCoresAreAHintOnly) {
  HostFacts f = healthy(2);
  f.ranks[1].worker_run_delay_share = flat(120, 0.6);
  const auto all = judge(f);
  ASSERT_EQ(kinds(all), "CPU_CONTENTION/workers_without_cores ");
  EXPECT_EQ(all[0].severity, Severity::kInfo);
  EXPECT_EQ(all[0].ranks, std::vector<int>{1});
}

TEST(CpuContention, ARecordedBusyNeighbourIsNamed) {
  const auto all = judge(recorded("busy_neighbour"));
  const Finding* f = find(all, FindingKind::kCpuContention);
  ASSERT_TRUE(f) << kinds(all);
  EXPECT_EQ(f->ranks, std::vector<int>{1});
  EXPECT_EQ(f->severity, Severity::kCrit);
}

TEST(CpuContention, ARecordedFullMachineNamesNoRank) {
  for (const Finding& f : judge(recorded("full_machine"))) EXPECT_TRUE(f.ranks.empty()) << f.title;
}

}  // namespace
}  // namespace stepscope
