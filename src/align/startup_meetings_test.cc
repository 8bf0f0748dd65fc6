// What is kept of the time before the first step: places where all ranks meet, long waits for an operation.
#include <gtest/gtest.h>

#include "training_loop.h"

namespace stepscope {
namespace {

constexpr auto kDdp = static_cast<uint64_t>(RendezvousPlace::kDistributedDataParallel);

// A wait for an operation of a group that was told: its kind is known.
void wait(Loop& l, uint64_t group, uint64_t sequence, int64_t us) {
  const auto put = [&](Edge edge) {
    l.builder.push(
        {l.t_, pack_kind(Kind::kWait, edge), 0, 7, group, sequence, 0, static_cast<uint64_t>(CollectiveOp::kBarrier)});
  };
  put(Edge::kBegin);
  l.pass(us);
  put(Edge::kEnd);
}

TEST(StartupMeetings, PlacesAreNumberedAndLongWaitsKept) {
  Loop l;
  l.mark(Kind::kRendezvous, kDdp).pass(5'000);
  wait(l, 77, 3, 2'000'000);
  wait(l, 77, 4, 400'000);  // no lateness to speak of
  l.mark(Kind::kRendezvous, kDdp);
  for (int i = 0; i < 3; ++i) l.forward().backward().optimizer();
  l.mark(Kind::kRendezvous, kDdp);
  wait(l, 77, 5, 3'000'000);
  l.finish();
  const auto& met = l.builder.life().startup_meetings;
  ASSERT_EQ(met.size(), 3u);
  EXPECT_FALSE(met[0].waited);
  EXPECT_TRUE(met[1].waited);
  EXPECT_EQ(met[1].group, 77u);
  EXPECT_EQ(met[1].sequence, 3u);
  EXPECT_EQ(met[1].end_ns - met[1].begin_ns, 2'000'000'000);
  EXPECT_EQ(met[2].sequence, kDdp << 32 | 1);
}

TEST(StartupMeetings, TheyAreBounded) {
  Loop l;
  for (int i = 0; i < 1000; ++i) l.mark(Kind::kRendezvous, kDdp).pass(10);
  EXPECT_EQ(l.builder.life().startup_meetings.size(), RankLife::kMaxStartupMeetings);
}

}  // namespace
}  // namespace stepscope
