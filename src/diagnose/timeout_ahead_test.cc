#include "diagnose/timeout_ahead.h"

#include <gtest/gtest.h>

namespace stepscope {
namespace {

// Rank 0 saves; rank 1 has waited for it in the second operation for `waited_s` of 100 s.
JobStanding saving(double waited_s) {
  JobStanding job;
  job.world = 2;
  job.run_s = 500;
  job.groups[7] = {"the default group", {0, 1}};
  for (int rank : {0, 1}) {
    RankStanding r;
    r.rank = rank;
    r.steps = 40;
    r.patience_s = 600;
    r.timeout_s = 100;
    r.silent_s = waited_s;
    r.groups[7].issued = static_cast<uint64_t>(rank + 1);
    r.groups[7].newest = {{static_cast<uint64_t>(rank), 8, 9, 0}};
    job.ranks.push_back(r);
  }
  job.ranks[0].phase = Category::kCheckpoint;
  job.ranks[1].awaits = AwaitedOp{.group = 7, .sequence = 1};
  return job;
}

TEST(TimeoutAhead, SaysWhoIsBusyWhoWaitsAndHowLongItMayLast) {
  const auto f = judge_timeout(saving(70));
  ASSERT_TRUE(f.has_value());
  EXPECT_EQ(f->kind, FindingKind::kTimeoutAhead);
  EXPECT_EQ(f->ranks, std::vector<int>{0});
  EXPECT_EQ(f->victims, std::vector<int>{1});
  EXPECT_EQ(f->title,
            "Rank 0 is busy in checkpoint while rank 1 waits in barrier 1 of the default group: the group's timeout of "
            "100 s ends the job in 30 s");
}

TEST(TimeoutAhead, SaysNothingEarlyOrWithoutATimeout) {
  EXPECT_FALSE(judge_timeout(saving(40)).has_value());
  JobStanding job = saving(70);
  for (RankStanding& r : job.ranks) r.timeout_s = 0;
  EXPECT_FALSE(judge_timeout(job).has_value());
}

TEST(TimeoutAhead, NobodyIsBusyWhereAllWait) {
  JobStanding job = saving(70);
  job.ranks[0].awaits = AwaitedOp{.group = 7, .sequence = 0};
  EXPECT_FALSE(judge_timeout(job).has_value());
}

}  // namespace
}  // namespace stepscope
