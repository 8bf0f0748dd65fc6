#include "sampler/cgroup.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "recorded_tree.h"

namespace stepscope {
namespace {

using testing::RecordedTree;
constexpr uint64_t kSecond = 1'000'000'000;

CgroupProbe probe_of(const RecordedTree& tree) {
  return CgroupProbe(tree.roots(), parse_cgroup_paths(tree.read("proc/701/cgroup")), 64);
}

TEST(Cgroup, Version1TakesTheTightestLimitsOnTheWayUp) {
  const RecordedTree tree("v1");
  CgroupProbe probe = probe_of(tree);
  probe.sample(kSecond);
  const CgroupFacts f = probe.facts();
  EXPECT_EQ(f.version, 1);
  EXPECT_EQ(f.path, "/jobs/train");
  EXPECT_DOUBLE_EQ(*f.memory_limit_bytes, 17179869184.0);                // of /jobs
  EXPECT_DOUBLE_EQ(f.memory_used_bytes.last, 3000000000 - 800000000.0);  // there, without inactive file pages
  EXPECT_DOUBLE_EQ(*f.cpu_limit_cores, 1.5);
  EXPECT_DOUBLE_EQ(*f.cpuset_cores, 4);
  EXPECT_EQ(f.oom_kills.delta(), 0u);
}

TEST(Cgroup, Version2TakesTheTightestLimitsOnTheWayUp) {
  const RecordedTree tree("v2");
  CgroupProbe probe = probe_of(tree);
  probe.sample(kSecond);
  const CgroupFacts f = probe.facts();
  EXPECT_EQ(f.version, 2);
  EXPECT_DOUBLE_EQ(*f.memory_limit_bytes, 8589934592.0);  // of pod7
  EXPECT_DOUBLE_EQ(f.memory_used_bytes.last, 4000000000.0);
  EXPECT_DOUBLE_EQ(*f.cpu_limit_cores, 2.0);
  EXPECT_DOUBLE_EQ(*f.cpuset_cores, 4);
}

TEST(Cgroup, ThrottlingIsTheShareOfPeriodsAndOomKillsAreCounted) {
  RecordedTree tree("v2");
  CgroupProbe probe = probe_of(tree);
  probe.sample(kSecond);
  const std::string stat = "sys/fs/cgroup/kubepods.slice/pod7/cpu.stat";
  ASSERT_TRUE(tree.set(stat, "nr_periods ", "510"));
  ASSERT_TRUE(tree.set(stat, "nr_throttled ", "26"));
  ASSERT_TRUE(tree.set(stat, "throttled_usec ", "1400000"));
  ASSERT_TRUE(tree.set("sys/fs/cgroup/kubepods.slice/pod7/memory.events", "oom_kill ", "3"));
  probe.sample(2 * kSecond);
  const CgroupFacts f = probe.facts();
  EXPECT_NEAR(f.throttled_period_share.last, 0.6, 1e-12);
  EXPECT_NEAR(f.throttled_ms_per_s.last, 400, 1e-9);
  EXPECT_EQ(f.oom_kills.delta(), 2u);
}

TEST(Cgroup, Version1CountsThrottledNanoseconds) {
  RecordedTree tree("v1");
  CgroupProbe probe = probe_of(tree);
  probe.sample(kSecond);
  const std::string stat = "sys/fs/cgroup/cpu,cpuacct/jobs/train/cpu.stat";
  ASSERT_TRUE(tree.set(stat, "throttled_time ", "5200000000"));
  probe.sample(3 * kSecond);
  EXPECT_NEAR(probe.facts().throttled_ms_per_s.last, 100, 1e-9);
  EXPECT_DOUBLE_EQ(probe.facts().throttled_period_share.last, 0);
}

TEST(Cgroup, LimitsThatChangeWhileTheJobRunsAreSeen) {
  RecordedTree tree("v2");
  CgroupProbe probe = probe_of(tree);
  tree.write("sys/fs/cgroup/kubepods.slice/pod7/train/cpu.max", "50000 100000\n");
  for (uint64_t i = 1; i < 40; ++i) probe.sample(i * kSecond);
  EXPECT_DOUBLE_EQ(*probe.facts().cpu_limit_cores, 0.5);
}

TEST(Cgroup, PathsOfAnotherNamespaceFallBackToWhatIsVisible) {
  RecordedTree tree("v2");
  tree.write("proc/701/cgroup", "0::/system.slice/docker-1234/kubepods.slice/pod7/train\n");
  CgroupProbe inner = probe_of(tree);
  EXPECT_DOUBLE_EQ(*inner.facts().memory_limit_bytes, 8589934592.0);
  tree.write("proc/701/cgroup", "0::/../../other\n");
  CgroupProbe outside = probe_of(tree);
  outside.sample(kSecond);
  EXPECT_FALSE(outside.facts().memory_limit_bytes.has_value());
  EXPECT_TRUE(outside.facts().memory_used_bytes.empty());  // the root's use is the machine's
}

TEST(Cgroup, NoLimitIsNullNotHuge) {
  EXPECT_FALSE(parse_memory_limit("max\n").has_value());
  EXPECT_FALSE(parse_memory_limit("9223372036854771712\n").has_value());
  EXPECT_FALSE(parse_memory_limit("-1\n").has_value());
  EXPECT_FALSE(parse_memory_limit("").has_value());
  EXPECT_DOUBLE_EQ(*parse_memory_limit("4096\n"), 4096);
}

TEST(Cgroup, ControllersAreWholeWords) {
  const CgroupPaths p = parse_cgroup_paths("3:cpuset:/a\n2:cpuacct,cpu:/b\n1:memory:relative\nnonsense\n0::/u\n");
  EXPECT_EQ(p.cpuset, "/a");
  EXPECT_EQ(p.cpu, "/b");
  EXPECT_EQ(p.memory, "");
  EXPECT_EQ(p.unified, "/u");
}

RC_GTEST_PROP(Cgroup, GarbageIsSafe, (const std::string& text)) {
  static RecordedTree tree("v2");  // copied once
  for (const char* name : {"memory.current", "memory.stat", "memory.max", "cpu.max", "cpu.stat", "memory.events"}) {
    tree.write(std::string("sys/fs/cgroup/kubepods.slice/pod7/") + name, text);
  }
  CgroupProbe probe = probe_of(tree);
  probe.sample(kSecond);
  probe.sample(2 * kSecond);
  (void)parse_cgroup_paths(text);
  const CgroupFacts f = probe.facts();
  if (!f.throttled_period_share.empty()) RC_ASSERT(f.throttled_period_share.max <= 1);
}

}  // namespace
}  // namespace stepscope
