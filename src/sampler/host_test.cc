#include "sampler/host.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "recorded_tree.h"

namespace stepscope {
namespace {

using testing::RecordedTree;
constexpr uint64_t kSecond = 1'000'000'000;

HostFacts facts_of(const HostProbe& probe) {
  HostFacts facts;
  probe.fill(facts);
  return facts;
}

TEST(Host, FirstSampleHasLevelsAndNoRates) {
  const RecordedTree tree("v1");
  HostProbe probe(tree.roots(), 64);
  probe.sample(100 * kSecond);
  const HostFacts f = facts_of(probe);
  EXPECT_EQ(f.cores, 2);
  EXPECT_DOUBLE_EQ(*f.memory_total_bytes, 24684092.0 * 1024);
  EXPECT_DOUBLE_EQ(f.host.memory_available_bytes.last, 21843028.0 * 1024);
  EXPECT_DOUBLE_EQ(f.host.load1.last, 8.50);
  EXPECT_DOUBLE_EQ(f.host.swap_used_bytes.last, 0);
  EXPECT_TRUE(f.host.cpu_share.empty());
  EXPECT_TRUE(f.host.context_switches_per_s.empty());
  EXPECT_TRUE(f.host.cpu_pressure_share.empty());
  EXPECT_TRUE(f.unavailable.empty());
}

TEST(Host, RatesCoverTheTimeBetweenSamples) {
  RecordedTree tree("v1");
  HostProbe probe(tree.roots(), 64);
  probe.sample(100 * kSecond);
  // Two seconds: core 0 busy 150 of 200 jiffies, core 1 all 200; ten of the idle ones in iowait.
  ASSERT_TRUE(tree.set("proc/stat", "cpu ", " 633897 43468 110042 356594 2815 0 1259 9526 0 0"));
  ASSERT_TRUE(tree.set("proc/stat", "cpu0 ", "307733 23361 52745 189386 779 0 227 4709 0 0"));
  ASSERT_TRUE(tree.set("proc/stat", "cpu1 ", "326163 20106 57297 167207 2035 0 1032 4817 0 0"));
  ASSERT_TRUE(tree.set("proc/pressure/cpu", "some", " avg10=99.00 avg60=99.10 avg300=98.35 total=3163568561"));
  const std::string vmstat = tree.read("proc/vmstat");
  const uint64_t faults = *value_of(vmstat, "pgfault"), in = *value_of(vmstat, "pswpin");
  ASSERT_TRUE(tree.set("proc/vmstat", "pgfault ", std::to_string(faults + 5000)));
  ASSERT_TRUE(tree.set("proc/vmstat", "pswpin ", std::to_string(in + 512)));
  probe.sample(102 * kSecond);
  const HostFacts f = facts_of(probe);
  EXPECT_NEAR(f.host.cpu_share.last, 350.0 / 400, 1e-12);
  EXPECT_NEAR(f.host.iowait_share.last, 10.0 / 400, 1e-12);
  EXPECT_NEAR(f.host.cpu_max_core_share.last, 1.0, 1e-12);
  EXPECT_NEAR(f.host.cpu_pressure_share.last, 0.5, 1e-9);
  EXPECT_NEAR(f.host.page_faults_per_s.last, 2500, 1e-9);
  EXPECT_NEAR(f.host.swap_in_bytes_per_s.last, 256.0 * 4096, 1e-6);
  EXPECT_NEAR(f.host.swap_out_bytes_per_s.last, 0, 1e-9);
}

TEST(Host, CountersThatGoBackwardsGiveNoRate) {
  RecordedTree tree("v1");
  HostProbe probe(tree.roots(), 64);
  probe.sample(100 * kSecond);
  ASSERT_TRUE(tree.set("proc/stat", "cpu ", " 10 0 0 10 0 0 0 0 0 0"));
  ASSERT_TRUE(tree.set("proc/stat", "ctxt ", "1"));
  ASSERT_TRUE(tree.edit("proc/stat", "cpu1", "cpux"));  // a core went offline
  probe.sample(101 * kSecond);
  const HostFacts f = facts_of(probe);
  EXPECT_TRUE(f.host.cpu_share.empty());
  EXPECT_TRUE(f.host.cpu_max_core_share.empty());
  EXPECT_TRUE(f.host.context_switches_per_s.empty());
  EXPECT_EQ(f.cores, 1);
}

TEST(Host, SwapUseIsTotalLessFree) {
  RecordedTree tree("v2");
  ASSERT_TRUE(tree.set("proc/meminfo", "SwapTotal:", "  1000 kB"));
  ASSERT_TRUE(tree.set("proc/meminfo", "SwapFree:", "  250 kB"));
  HostProbe probe(tree.roots(), 64);
  probe.sample(kSecond);
  EXPECT_DOUBLE_EQ(facts_of(probe).host.swap_used_bytes.last, 750.0 * 1024);
}

TEST(Host, MissingFilesAreNamedOnceAndNeverZero) {
  RecordedTree tree("v1");
  for (const char* name : {"proc/stat", "proc/meminfo", "proc/vmstat", "proc/pressure", "proc/loadavg"})
    tree.remove(name);
  HostProbe probe(tree.roots(), 64);
  for (int i = 1; i < 5; ++i) probe.sample(static_cast<uint64_t>(i) * kSecond);
  const HostFacts f = facts_of(probe);
  EXPECT_TRUE(f.host.cpu_share.empty());
  EXPECT_TRUE(f.host.memory_available_bytes.empty());
  EXPECT_FALSE(f.memory_total_bytes.has_value());
  ASSERT_EQ(f.unavailable.size(), 4u);
  EXPECT_EQ(f.unavailable[0], "host cpu: No such file or directory");
}

TEST(Host, NoTreeAtAllIsSafe) {
  HostProbe probe({"/nonexistent/proc", "/nonexistent/sys"}, 64);
  probe.sample(kSecond);
  EXPECT_FALSE(facts_of(probe).unavailable.empty());
}

RC_GTEST_PROP(Host, GarbageGivesNoShareOutsideItsRange, (const std::string& stat, const std::string& meminfo)) {
  static RecordedTree tree("");
  tree.write("proc/stat", "cpu " + stat);
  tree.write("proc/meminfo", "MemTotal: " + meminfo);
  tree.write("proc/vmstat", stat);
  tree.write("proc/pressure/cpu", "some total=" + meminfo);
  HostProbe probe(tree.roots(), 8);
  probe.sample(kSecond);
  tree.write("proc/stat", "cpu " + meminfo);
  probe.sample(2 * kSecond);
  const HostFacts f = facts_of(probe);
  for (const SampledSeries* s : {&f.host.cpu_share, &f.host.iowait_share, &f.host.cpu_pressure_share}) {
    if (!s->empty()) RC_ASSERT(s->min >= 0 && s->max <= 1);
  }
}

TEST(Host, HugeNumbersDoNotWrap) {
  EXPECT_FALSE(parse_cpu_times("18446744073709551616 1 1 1").has_value());
  EXPECT_TRUE(parse_cpu_times("1 2 3 4").has_value());  // kernels of long ago
  EXPECT_FALSE(parse_pressure_us("some avg10=0.00 total=99999999999999999999\n", "some").has_value());
  EXPECT_FALSE(parse_pressure_us("full avg10=0.00 total=5\n", "some").has_value());
}

}  // namespace
}  // namespace stepscope
