#include <gtest/gtest.h>

#include "host_rules.h"

namespace stepscope {
namespace {

using namespace testing;

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
    EXPECT_EQ(all[0].kind, FindingKind::kGpuError);
    EXPECT_EQ(all[0].cause.text(), "xid_" + std::to_string(code));
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

}  // namespace
}  // namespace stepscope
