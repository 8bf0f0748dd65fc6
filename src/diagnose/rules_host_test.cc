#include "diagnose/rules_host.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "host_facts_builder.h"

namespace stepscope {
namespace {

using namespace testing;

std::vector<Finding> judge(const HostFacts& f) { return judge_host(f, HostThresholds{}); }

const Finding* find(const std::vector<Finding>& all, const std::string& kind) {
  for (const Finding& f : all) {
    if (f.kind == kind) return &f;
  }
  return nullptr;
}

std::string kinds(const std::vector<Finding>& all) {
  std::string out;
  for (const Finding& f : all) out += f.kind + "/" + f.cause + " ";
  return out;
}

#define EXPECT_SILENT(facts) EXPECT_EQ(kinds(judge(facts)), "")

// --- CPU ---------------------------------------------------------------------------------------------------------

TEST(HostRules, AHealthyNodeIsSilentAndBalanced) {
  const HostFacts f = healthy(4);
  EXPECT_SILENT(f);
  EXPECT_EQ(system_section(f, {}).diagnosis, "BALANCED");
  EXPECT_EQ(process_section(f, {}).diagnosis, "BALANCED");
  EXPECT_NEAR(*system_section(f, {}).values.at("memory_used_peak_share"), 0.25, 1e-9);
}

TEST(HostRules, NothingSampledIsNoData) {
  const HostFacts f;
  EXPECT_SILENT(f);
  EXPECT_EQ(system_section(f, {}).diagnosis, "NO_DATA");
  EXPECT_EQ(process_section(f, {}).diagnosis, "NO_DATA");
  EXPECT_FALSE(system_section(f, {}).values.at("cpu_share").has_value());
}

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
  EXPECT_EQ(system_section(f, all).diagnosis, "HIGH_CPU");
}

TEST(HighCpu, TheTimeThatRanksWaitIsItsCost) {
  HostFacts f = healthy(2);
  f.host.cpu_share = flat(120, 1.0);
  for (RankProcess& r : f.ranks) {
    r.run_delay_share = flat(120, 0.17);
    r.cpu_cores = flat(120, 4);
  }
  const auto all = judge(f);
  ASSERT_EQ(kinds(all), "HIGH_CPU/own_processes ");
  EXPECT_NEAR(all[0].cost_share, 0.12, 1e-9);
  EXPECT_EQ(all[0].severity, Severity::kWarn);
  for (RankProcess& r : f.ranks) r.run_delay_share = flat(120, 0.30);
  EXPECT_EQ(judge(f).at(0).severity, Severity::kCrit);
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
  EXPECT_EQ(all[0].section, "process");
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
  const Finding* f = find(all, "CPU_CONTENTION");
  ASSERT_TRUE(f) << kinds(all);
  EXPECT_EQ(f->ranks, std::vector<int>{1});
  EXPECT_EQ(f->severity, Severity::kCrit);
}

TEST(CpuContention, ARecordedFullMachineNamesNoRank) {
  for (const Finding& f : judge(recorded("full_machine"))) EXPECT_TRUE(f.ranks.empty()) << f.title;
}

// --- memory of the host ------------------------------------------------------------------------------------------

TEST(HostMemoryPressure, OnBothSidesOfItsThreshold) {
  HostFacts f = healthy();
  f.host.memory_available_bytes = series(120, [](double s) { return s == 60 ? 6.6e9 : 20e9; });
  EXPECT_SILENT(f);
  f.host.memory_available_bytes = series(120, [](double s) { return s == 60 ? 6.2e9 : 20e9; });
  auto all = judge(f);
  ASSERT_EQ(kinds(all), "HOST_MEMORY_PRESSURE/near_limit ");
  EXPECT_EQ(all[0].severity, Severity::kInfo);
  f.host.memory_available_bytes = flat(120, 1e9);
  EXPECT_EQ(judge(f).at(0).severity, Severity::kCrit);  // the limit is within reach
}

TEST(HostMemoryPressure, TheCgroupLimitCountsBeforeTheHost) {
  HostFacts f = healthy();
  CgroupFacts& g = f.cgroups.emplace_back();
  g.memory_limit_bytes = 8e9;
  g.memory_used_bytes = flat(120, 7.9e9);
  const auto all = judge(f);
  ASSERT_EQ(kinds(all), "HOST_MEMORY_PRESSURE/near_limit ");
  EXPECT_EQ(all[0].severity, Severity::kCrit);
  EXPECT_NE(all[0].title.find("cgroup"), std::string::npos);
}

TEST(HostMemoryPressure, SwappingMustLastAndStallsAreItsCost) {
  HostFacts f = healthy();
  f.host.swap_in_bytes_per_s = series(120, [](double s) { return s < 30 ? 50e6 : 0; });
  EXPECT_SILENT(f);
  f.host.swap_in_bytes_per_s = flat(120, 50e6);
  auto all = judge(f);
  ASSERT_EQ(kinds(all), "HOST_MEMORY_PRESSURE/swap ");
  EXPECT_EQ(all[0].severity, Severity::kInfo);
  f.host.memory_full_pressure_share = flat(120, 0.08);
  EXPECT_EQ(judge(f).at(0).severity, Severity::kWarn);
  f.host.memory_full_pressure_share = flat(120, 0.3);
  EXPECT_EQ(judge(f).at(0).severity, Severity::kCrit);
}

TEST(HostMemoryPressure, AnOomKillIsCritical) {
  HostFacts f = healthy();
  f.cgroups.emplace_back().oom_kills = {2, 2};
  EXPECT_SILENT(f);  // kills of before
  f.cgroups[0].oom_kills.last = 3;
  const auto all = judge(f);
  ASSERT_EQ(kinds(all), "HOST_MEMORY_PRESSURE/oom_kill ");
  EXPECT_EQ(all[0].severity, Severity::kCrit);
}

// --- growth ------------------------------------------------------------------------------------------------------

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
  f = healthy(1, 36, 5);            // 165
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

TEST(HostMemoryCreep, AStepThatLastsManySamplesIsNoStaircase) {
  HostFacts f = healthy(1, 3000, 0.1);  // ten seconds a step
  f.ranks[0].held_bytes = series(3000, [](double s) { return 500e6 + 3e6 * std::floor(std::max(0.0, s - 2) / 10); });
  const auto all = judge(f);
  ASSERT_EQ(kinds(all), "HOST_MEMORY_CREEP/ ");
  EXPECT_EQ(all[0].ranks, std::vector<int>{0});
}

TEST(HostMemoryCreep, SeveralRanksAreOneFinding) {
  HostFacts f = healthy(4);
  for (int r : {0, 2}) f.ranks[static_cast<size_t>(r)].held_bytes = series(120, [](double s) { return 500e6 + 2e6 * s; });
  const auto all = judge(f);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].ranks, (std::vector<int>{0, 2}));
  EXPECT_NE(all[0].title.find("Ranks 0 and 2"), std::string::npos);
}

TEST(MemoryStaircase, StairsThatGoOnAreNamedAndStairsThatStoppedAreNot) {
  HostFacts f = healthy(2, 200);
  f.ranks[0].held_bytes = series(200, [](double s) { return 500e6 + 80e6 * std::floor(s / 30); });
  auto all = judge(f);
  ASSERT_EQ(kinds(all), "MEMORY_STAIRCASE/ ");
  EXPECT_EQ(all[0].ranks, std::vector<int>{0});
  EXPECT_EQ(all[0].severity, Severity::kWarn);
  EXPECT_NE(all[0].title.find("80 MB"), std::string::npos) << all[0].title;
  f.ranks[0].held_bytes = series(200, [](double s) { return 500e6 + 80e6 * std::min(std::floor(s / 20), 4.0); });
  EXPECT_SILENT(f);
}

TEST(HostMemoryCreep, ARecordedLeakIsFoundInItsRankOnly) {
  const auto all = judge(recorded("leak"));
  const Finding* f = find(all, "HOST_MEMORY_CREEP");
  ASSERT_TRUE(f) << kinds(all);
  EXPECT_EQ(f->ranks, std::vector<int>{1});
  EXPECT_EQ(find(all, "MEMORY_STAIRCASE"), nullptr);
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
      EXPECT_EQ(find(all, "HOST_MEMORY_CREEP"), nullptr) << name << " at sample " << k;
      EXPECT_EQ(find(all, "MEMORY_STAIRCASE"), nullptr) << name << " at sample " << k;
    }
  }
}

// --- loader workers ----------------------------------------------------------------------------------------------

WorkerGrowth growth(double uss, double rss, double unshared) {
  WorkerGrowth g;
  g.workers = 2;
  g.seconds = 10;
  g.uss_first_bytes = 30e6;
  g.uss_last_bytes = 30e6 + uss;
  g.rss_first_bytes = 1000e6;
  g.rss_last_bytes = 1000e6 + rss;
  g.shared_anon_first_bytes = 900e6;
  g.shared_anon_last_bytes = 900e6 - unshared;
  return g;
}

TEST(WorkerMemoryGrowth, CopiedPagesOfTheParentAreNamed) {
  HostFacts f = healthy(2);
  f.ranks[0].worker_growth = growth(160e6, 0, 158e6);
  const auto all = judge(f);
  ASSERT_EQ(kinds(all), "WORKER_MEMORY_GROWTH/copy_on_write ");
  EXPECT_EQ(all[0].ranks, std::vector<int>{0});
  EXPECT_EQ(all[0].severity, Severity::kWarn);
  f.host.memory_available_bytes = flat(120, 0.5e9);  // less than what may still be copied
  EXPECT_EQ(find(judge(f), "WORKER_MEMORY_GROWTH")->severity, Severity::kCrit);
}

TEST(WorkerMemoryGrowth, LookAlikesStaySilent) {
  HostFacts f = healthy(1);
  f.ranks[0].worker_growth = growth(60e6, 0, 60e6);  // below its size
  EXPECT_SILENT(f);
  f.ranks[0].worker_growth = growth(200e6, 195e6, 2e6);  // memory of their own (caches, buffers), seen once
  EXPECT_SILENT(f);
  f.ranks[0].worker_growth = growth(160e6, 0, 20e6);  // nothing was un-shared: pages merely counted anew
  EXPECT_SILENT(f);
}

TEST(WorkerMemoryGrowth, ALeakInTheWorkersIsAVerifiedLine) {
  HostFacts f = healthy(1);
  f.ranks[0].worker_held_bytes = series(120, [](double s) { return 800e6 + 2e6 * s; });
  auto all = judge(f);
  ASSERT_EQ(kinds(all), "WORKER_MEMORY_GROWTH/leak ");
  // New workers each epoch start from nothing: only the present set counts.
  f.ranks[0].worker_held_bytes = series(120, [](double s) { return 400e6 + 20e6 * std::fmod(s, 15); });
  f.ranks[0].workers_since_ns = (100 + 105) * kSecondNs;
  EXPECT_SILENT(f);
}

// --- devices -----------------------------------------------------------------------------------------------------

HostFacts with_gpus(int n) {
  HostFacts f = healthy(n);
  for (int i = 0; i < n; ++i) f.devices.push_back(device(i, i));
  return f;
}

TEST(GpuRules, HealthyDevicesAreSilent) { EXPECT_SILENT(with_gpus(4)); }

TEST(GpuRules, UtilisationOnBothSidesOfEachThreshold) {
  const std::pair<double, const char*> cases[] = {{0.29, "LOW_GPU_UTILIZATION/ "},
                                                  {0.31, "MODERATE_GPU_UTILIZATION/ "},
                                                  {0.69, "MODERATE_GPU_UTILIZATION/ "},
                                                  {0.71, ""}};
  for (const auto& [share, expected] : cases) {
    HostFacts f = with_gpus(2);
    for (DeviceFacts& d : f.devices) d.utilization_share = flat(120, share);
    const auto all = judge(f);
    EXPECT_EQ(kinds(all), expected) << share;
    for (const Finding& x : all) EXPECT_EQ(x.severity, Severity::kInfo);
  }
}

TEST(GpuRules, AFailingCallIsNoLowUtilisation) {
  HostFacts f = with_gpus(2);
  for (DeviceFacts& d : f.devices) d.utilization_share = {};
  EXPECT_SILENT(f);
}

TEST(GpuRules, ADeviceThatNoRankUsesIsNotJudged) {
  HostFacts f = with_gpus(1);
  f.devices.push_back(device(7, 0));
  f.devices[1].ranks.clear();
  f.devices[1].utilization_share = flat(120, 0);
  f.devices[1].xids = {{0, 79}};
  EXPECT_SILENT(f);
}

TEST(GpuRules, UnevenUse) {
  HostFacts f = with_gpus(2);
  f.devices[0].utilization_share = flat(120, 0.73);
  EXPECT_SILENT(f);
  f.devices[0].utilization_share = flat(120, 0.69);
  const auto all = judge(f);
  ASSERT_EQ(kinds(all), "GPU_UTILIZATION_UNEVEN/ ");
  EXPECT_TRUE(all[0].job_scope);  // low use does not tell who is at fault
}

TEST(GpuRules, ThrottlingCostsWhatTheClockLost) {
  HostFacts f = with_gpus(4);
  f.devices[2].thermal_throttle_share = series(120, [](double s) { return s < 4 ? 1 : 0; });
  EXPECT_SILENT(f);  // a spike
  f.devices[2].thermal_throttle_share = flat(120, 1);
  f.devices[2].sm_clock_mhz = flat(120, 1190);  // 30 % below the others
  f.devices[2].clock_reasons_seen = kClockHwThermal;
  const auto all = judge(f);
  ASSERT_EQ(kinds(all), "GPU_THROTTLED/thermal ");
  EXPECT_EQ(all[0].ranks, std::vector<int>{2});
  EXPECT_NEAR(all[0].cost_share, 0.3, 1e-9);
  EXPECT_EQ(all[0].severity, Severity::kCrit);
}

TEST(GpuRules, HotOnBothSides) {
  HostFacts f = with_gpus(1);
  f.devices[0].temperature_c = flat(120, 84);
  EXPECT_SILENT(f);
  f.devices[0].temperature_c = flat(120, 85);
  EXPECT_EQ(kinds(judge(f)), "GPU_HOT/ ");
  f.devices[0].temperature_slowdown_c = 80;
  f.devices[0].temperature_c = flat(120, 78);
  EXPECT_EQ(kinds(judge(f)), "GPU_HOT/ ");
}

TEST(GpuRules, AllAtTheirPowerLimitIsOneHint) {
  HostFacts f = with_gpus(4);
  for (DeviceFacts& d : f.devices) {
    d.power_cap_share = flat(120, 1);
    d.power_limit_w = 700;
  }
  auto all = judge(f);
  ASSERT_EQ(kinds(all), "GPU_POWER_LIMITED/ ");
  EXPECT_EQ(all[0].severity, Severity::kInfo);
  EXPECT_TRUE(all[0].job_scope);
  // Measured on two H200: the busy one ran at 1485 MHz, the one that mostly waited at 1860. Neither is at fault.
  f.devices[1].sm_clock_mhz = flat(120, 1485);
  f.devices[2].power_cap_share = flat(120, 0.1);
  all = judge(f);
  ASSERT_EQ(kinds(all), "GPU_POWER_LIMITED/ ");
  EXPECT_EQ(all[0].severity, Severity::kInfo);
  EXPECT_EQ(all[0].ranks, (std::vector<int>{0, 1, 3}));
}

TEST(GpuRules, ADeviceWithALowerPowerLimitThanTheOthersCostsTime) {
  HostFacts f = with_gpus(4);
  for (DeviceFacts& d : f.devices) {
    d.power_cap_share = flat(120, 0);
    d.power_limit_w = 700;
  }
  f.devices[1].power_cap_share = flat(120, 1);
  f.devices[1].power_limit_w = 500;
  f.devices[1].sm_clock_mhz = flat(120, 1530);  // 10 % below the others
  const auto all = judge(f);
  ASSERT_EQ(kinds(all), "GPU_POWER_LIMITED/lower_limit ");
  EXPECT_EQ(all[0].ranks, std::vector<int>{1});
  EXPECT_NEAR(all[0].cost_share, 0.1, 1e-9);
  EXPECT_EQ(all[0].severity, Severity::kWarn);
}

TEST(GpuRules, ErrorsAreRankedByWhatTheyMean) {
  const std::pair<uint64_t, Severity> cases[] = {{79, Severity::kCrit}, {94, Severity::kWarn}, {31, Severity::kInfo}};
  for (const auto& [code, severity] : cases) {
    HostFacts f = with_gpus(2);
    f.devices[1].xids = {{5, code}};
    const auto all = judge(f);
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].kind, "GPU_ERROR");
    EXPECT_EQ(all[0].cause, "xid_" + std::to_string(code));
    EXPECT_EQ(all[0].severity, severity);
    EXPECT_EQ(all[0].ranks, std::vector<int>{1});
  }
  HostFacts f = with_gpus(1);
  f.devices[0].ecc_uncorrected = {5, 5};
  f.devices[0].ecc_corrected = {5, 900};
  EXPECT_SILENT(f);  // old errors, and corrected ones
  f.devices[0].ecc_uncorrected.last = 6;
  EXPECT_EQ(kinds(judge(f)), "GPU_ERROR/ecc_uncorrected ");
}

TEST(GpuRules, LinksBelowTheirWidthOrNumber) {
  HostFacts f = with_gpus(2);
  f.devices[0].pcie_width = 8;
  EXPECT_EQ(kinds(judge(f)), "LINK_DEGRADED/pcie_width ");
  f.devices[1].pcie_width = 8;  // so the slots are wired here
  EXPECT_SILENT(f);
  f = with_gpus(1);
  f.devices[0].pcie_width = 4;
  EXPECT_EQ(kinds(judge(f)), "LINK_DEGRADED/pcie_width ");
  f = with_gpus(2);
  f.devices[0].nvlinks_active = f.devices[0].nvlinks_expected = 16;  // of 18 that the other has
  EXPECT_EQ(kinds(judge(f)), "LINK_DEGRADED/nvlink_down ");
  f = with_gpus(2);
  f.devices[0].pcie_generation = 1;  // saves power when idle: no fault
  f.devices[0].pcie_generation_max = 5;
  f.devices[0].pcie_replays = {0, 9};
  EXPECT_SILENT(f);
  f.devices[0].nvlink_errors = {3, 12};
  EXPECT_SILENT(f);
  f.devices[0].nvlink_errors = {3, 13};
  EXPECT_EQ(kinds(judge(f)), "LINK_DEGRADED/nvlink_errors ");
  f.devices[0].nvlink_errors = {};
  f.devices[0].pcie_replays = {0, 50};
  EXPECT_EQ(kinds(judge(f)), "LINK_DEGRADED/pcie_replays ");
}

// --- all ---------------------------------------------------------------------------------------------------------

RC_GTEST_PROP(HostRules, AnyFactsAreSafeAndEveryFindingIsComplete, ()) {
  HostFacts f = with_gpus(*rc::gen::inRange(0, 4));
  const auto any = [](int n) {
    std::vector<double> v;
    for (int i = 0; i < n; ++i) v.push_back(*rc::gen::arbitrary<double>());
    return v;
  };
  for (RankProcess& r : f.ranks) {
    const auto v = any(120);
    r.held_bytes = series(120, [&](double s) { return v[static_cast<size_t>(s)] * 1e9; });
    r.run_delay_share = series(120, [&](double s) { return std::abs(std::fmod(v[static_cast<size_t>(s)], 1)); });
  }
  for (const Finding& x : judge(f)) {
    RC_ASSERT(!x.kind.empty());
    RC_ASSERT(!x.title.empty());
    RC_ASSERT(!x.action.empty());
    RC_ASSERT(!x.evidence.empty());
    RC_ASSERT(x.section == "system" || x.section == "process");
    RC_ASSERT(x.job_scope == x.ranks.empty());
    RC_ASSERT(x.cost_share >= 0 && x.cost_share <= 1);
    RC_ASSERT(x.title.find('\n') == std::string::npos);
  }
}

TEST(HostRules, SameFactsSameFindings) {
  HostFacts f = with_gpus(3);
  f.ranks[1].held_bytes = series(120, [](double s) { return 500e6 + 2e6 * s; });
  f.devices[0].utilization_share = flat(120, 0.2);
  const auto a = judge(f), b = judge(f);
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i].title, b[i].title);
}

}  // namespace
}  // namespace stepscope
