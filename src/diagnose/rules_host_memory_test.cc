#include <gtest/gtest.h>

#include "host_rules.h"

namespace stepscope {
namespace {

using namespace testing;

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

}  // namespace
}  // namespace stepscope
