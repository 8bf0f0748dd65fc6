#include "sampler/oom_counters.h"

#include <gtest/gtest.h>

#include "recorded_tree.h"

namespace stepscope {
namespace {

using testing::RecordedTree;
constexpr uint64_t kSecond = 1'000'000'000;
constexpr char kGroup[] = "sys/fs/cgroup/kubepods.slice/pod7/train/memory.events";

// One process of the recorded tree (cgroup version 2), followed since second 1.
class OomCountersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    tree_.write("proc/vmstat", "nr_free_pages 1000\noom_kill 4\n");
    tree_.write(kGroup, "low 0\noom 0\noom_kill 1\n");
    counters_.follow(701);
    counters_.look(kSecond);
  }
  RecordedTree tree_{"v2"};
  OomCounters counters_{tree_.roots()};
};

TEST_F(OomCountersTest, AKillBeforeIsNoneOfThisProcess) {
  EXPECT_EQ(counters_.at_death(701, 2 * kSecond), OomKill::kNone);
  EXPECT_EQ(counters_.at_death(701, 2 * kSecond), OomKill::kUnknown) << "it is followed no longer";
}

TEST_F(OomCountersTest, AKillThatItsGroupCountsIsItsOwn) {
  tree_.write(kGroup, "low 0\noom 1\noom_kill 2\n");
  tree_.write("proc/vmstat", "oom_kill 5\n");
  EXPECT_EQ(counters_.at_death(701, 2 * kSecond), OomKill::kInGroup);
}

TEST_F(OomCountersTest, AlsoWhereItWasCountedWhileTheProcessWasStillGoing) {
  tree_.write(kGroup, "low 0\noom 1\noom_kill 2\n");
  counters_.look(3 * kSecond);
  counters_.look(5 * kSecond);
  EXPECT_EQ(counters_.at_death(701, 8 * kSecond), OomKill::kInGroup);
}

TEST_F(OomCountersTest, OneLongAgoIsNot) {
  tree_.write(kGroup, "low 0\noom 1\noom_kill 2\n");
  counters_.look(3 * kSecond);
  EXPECT_EQ(counters_.at_death(701, 60 * kSecond), OomKill::kNone);
}

TEST_F(OomCountersTest, TheHostCountsWhatNoGroupDoes) {
  tree_.write("proc/vmstat", "oom_kill 5\n");
  EXPECT_EQ(counters_.at_death(701, 2 * kSecond), OomKill::kOnHost);
}

TEST_F(OomCountersTest, WithoutCountersNothingIsSaid) {
  const RecordedTree bare("");
  OomCounters counters(bare.roots());
  counters.follow(701);
  EXPECT_EQ(counters.at_death(701, kSecond), OomKill::kUnknown);
}

}  // namespace
}  // namespace stepscope
