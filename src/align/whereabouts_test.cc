#include "align/whereabouts.h"

#include <gtest/gtest.h>

#include "blackbox/event_kind.h"

namespace stepscope {
namespace {

constexpr uint64_t kMs = 1'000'000;

class WhereaboutsTest : public ::testing::Test {
 protected:
  void at(uint64_t ms, Kind kind, Edge edge, uint64_t a = 0, uint64_t b = 0, uint64_t c = 0, uint64_t d = 0,
          uint16_t flags = 0, Category phase = Category::kUnattributed) {
    where_.push({ms * kMs, pack_kind(kind, edge), flags, 9, a, b, c, d}, phase);
  }
  Whereabouts where_;
};

TEST_F(WhereaboutsTest, KnowsThePlaceInEachGroup) {
  at(1, Kind::kCollective, Edge::kMark, 5, 0, 64, 1);
  at(2, Kind::kCollective, Edge::kMark, 5, 1, 128, 4);
  at(3, Kind::kCollective, Edge::kMark, 6, 0, 8, 9);
  ASSERT_EQ(where_.groups().size(), 2u);
  EXPECT_EQ(where_.groups().at(5).issued, 2u);
  ASSERT_NE(where_.groups().at(5).find(1), nullptr);
  EXPECT_EQ(where_.groups().at(5).find(1)->bytes, 128u);
  EXPECT_EQ(where_.groups().at(5).find(2), nullptr);
}

TEST_F(WhereaboutsTest, KnowsWhatHasFollowedWhat) {
  for (uint64_t step = 0; step < 100; ++step) {
    at(10 * step + 1, Kind::kCollective, Edge::kMark, 5, 2 * step, 64, 1);
    at(10 * step + 2, Kind::kCollective, Edge::kMark, 6, 2 * step, 64 + step, 2);  // pieces may be uneven
  }
  at(2000, Kind::kCollective, Edge::kMark, 5, 200, 32, 1);
  const IssuedOp &last = *where_.groups().at(5).find(200), &usual = *where_.groups().at(5).find(198);
  EXPECT_EQ(last.after, usual.after);
  EXPECT_TRUE(where_.turns().never_taken(last.after, last.what, last.time_ns)) << "another size";
  EXPECT_FALSE(where_.turns().taken_twice(last.after, last.what, last.time_ns));
  EXPECT_TRUE(where_.turns().taken_twice(last.after, usual.what, last.time_ns));
  EXPECT_FALSE(where_.turns().taken_twice(last.after, usual.what, 5 * kMs)) << "not by then";
}

TEST_F(WhereaboutsTest, WithTooManyTurnsNothingIsNew) {
  for (uint64_t i = 0; i < 2 * OpTurns::kMost; ++i) at(i + 1, Kind::kCollective, Edge::kMark, 5, i, i, 1);
  const IssuedOp& last = where_.groups().at(5).newest.back();
  EXPECT_FALSE(where_.turns().never_taken(last.after, last.what, last.time_ns));
  EXPECT_FALSE(where_.turns().taken_twice(last.after, last.what, last.time_ns));
}

TEST_F(WhereaboutsTest, APlaceOfTheDeviceUntilThereAreMessages) {
  at(1, Kind::kForward, Edge::kBegin);
  at(1, Kind::kGpuMark, Edge::kMark, pack_kind(Kind::kForward, Edge::kBegin));
  at(2, Kind::kForward, Edge::kEnd);
  ASSERT_TRUE(where_.device_place());
  EXPECT_EQ(where_.device_place()->boundary, 1u);
  Whereabouts other = where_;
  at(3, Kind::kCollective, Edge::kMark, 5, 0, 64, 1 | 1ull << 16, kCollectiveP2p);
  EXPECT_FALSE(where_.device_place());
  where_ = other;
  at(3, Kind::kNcclOp, Edge::kMark, 5, 0, 64, 1, kNcclP2p);
  EXPECT_FALSE(where_.device_place());
}

TEST_F(WhereaboutsTest, WorkersAtABatch) {
  where_.push({1, pack_kind(Kind::kWorkerFetch, Edge::kBegin), 0, 501, 0, 3}, Category::kUnattributed);
  where_.push({2, pack_kind(Kind::kWorkerFetch, Edge::kBegin), 0, 502, 1, 3}, Category::kUnattributed);
  where_.push({3, pack_kind(Kind::kWorkerFetch, Edge::kEnd), 0, 501, 0, 3}, Category::kUnattributed);
  ASSERT_EQ(where_.worker_fetches().size(), 1u);
  EXPECT_EQ(where_.worker_fetches().at(502).worker, 1u);
}

TEST_F(WhereaboutsTest, DataThatEnded) {
  at(0, Kind::kFetch, Edge::kBegin, 3);
  EXPECT_EQ(where_.in_fetch(), 3u);
  at(1, Kind::kFetch, Edge::kEnd, 3);
  EXPECT_FALSE(where_.data_ended() || where_.in_fetch());
  at(2, Kind::kFetch, Edge::kEnd, 3, 0, 0, 0, kFetchStop);
  at(3, Kind::kForward, Edge::kBegin, 4);  // without gradients
  EXPECT_TRUE(where_.data_ended());
  at(4, Kind::kForward, Edge::kBegin, 4, 0, 0, 0, kForwardGrad);
  EXPECT_FALSE(where_.data_ended());
}

// Torch before 2.14 does not tell of collectives; where it does, NCCL tells of the same ones.
TEST_F(WhereaboutsTest, TakesNcclsWordWhereTorchSaysNothing) {
  at(1, Kind::kNcclComm, Edge::kBegin, 77, 0, 2);
  at(2, Kind::kNcclOp, Edge::kMark, 77, 0, 64, 1);
  at(3, Kind::kNcclOp, Edge::kMark, 77, 1, 64, 1);
  at(4, Kind::kNcclOp, Edge::kMark, 77, 9, 64, 9, kNcclP2p);
  ASSERT_EQ(where_.groups().size(), 1u);
  EXPECT_EQ(where_.groups().at(77).issued, 2u);
  EXPECT_EQ(where_.groups().at(77).size, 2u);
  at(5, Kind::kCollective, Edge::kMark, 5, 3, 64, 1);
  at(6, Kind::kNcclOp, Edge::kMark, 77, 2, 64, 1);
  ASSERT_EQ(where_.groups().size(), 1u);
  EXPECT_EQ(where_.groups().at(5).issued, 4u);
}

// Nobody tells of collectives (gloo, torch before 2.14): the ends of backwards are counted, and waits as they say.
TEST_F(WhereaboutsTest, CountsWhatItWaitsForWhereNobodyTellsOfCollectives) {
  for (uint64_t step = 0; step < 3; ++step) {
    at(10 * step + 1, Kind::kBackward, Edge::kBegin);
    EXPECT_FALSE(where_.awaited().has_value());
    at(10 * step + 2, Kind::kBackwardOwn, Edge::kMark);
    ASSERT_TRUE(where_.awaited().has_value());
    EXPECT_EQ(where_.awaited()->sequence, step);
    at(10 * step + 3, Kind::kBackward, Edge::kEnd);
  }
  const uint64_t tails = where_.groups().begin()->first;
  EXPECT_EQ(where_.groups().at(tails).issued, 3u);
  at(50, Kind::kWait, Edge::kBegin, 0, 7);
  EXPECT_EQ(where_.awaited()->sequence, 7u);
  EXPECT_EQ(where_.groups().at(0).issued, 8u);
}

TEST_F(WhereaboutsTest, WaitsInsideAWaitAndInTheTailOfBackward) {
  EXPECT_FALSE(where_.awaited().has_value());
  at(1, Kind::kWait, Edge::kBegin, 5, 3);
  ASSERT_TRUE(where_.awaited().has_value());
  EXPECT_EQ(where_.awaited()->sequence, 3u);
  at(2, Kind::kWait, Edge::kEnd, 5, 3);
  EXPECT_FALSE(where_.awaited().has_value());
  at(3, Kind::kBackward, Edge::kBegin);
  at(4, Kind::kCollective, Edge::kMark, 5, 4, 64, 1);
  EXPECT_FALSE(where_.awaited().has_value()) << "it still computes";
  at(5, Kind::kBackwardOwn, Edge::kMark);
  ASSERT_TRUE(where_.awaited().has_value());
  EXPECT_EQ(where_.awaited()->sequence, 4u);
  EXPECT_EQ(where_.awaited()->since_ns, static_cast<int64_t>(5 * kMs));
  EXPECT_TRUE(where_.in_step());
  at(6, Kind::kBackward, Edge::kEnd);
  at(7, Kind::kOptimizer, Edge::kEnd);
  EXPECT_FALSE(where_.awaited().has_value() || where_.in_step());
}

TEST_F(WhereaboutsTest, WhatADyingProcessWritesIsNoProgress) {
  at(1, Kind::kOptimizer, Edge::kEnd);
  for (const Kind kind : {Kind::kException, Kind::kTeardown, Kind::kProcess, Kind::kGc}) at(50, kind, Edge::kMark);
  EXPECT_EQ(where_.progress_ns(), static_cast<int64_t>(kMs));
}

TEST_F(WhereaboutsTest, LearnsSilencesByPhaseAndTheUsualStep) {
  at(0, Kind::kForward, Edge::kBegin);
  for (uint64_t step = 1; step <= 5; ++step) at(step * 100, Kind::kOptimizer, Edge::kEnd);
  EXPECT_DOUBLE_EQ(where_.usual_step_s(), 0.1);
  at(9500, Kind::kSave, Edge::kEnd, 0, 0, 0, 0, 0, Category::kCheckpoint);
  EXPECT_DOUBLE_EQ(where_.longest_silence_s(Category::kCheckpoint), 9);
  EXPECT_DOUBLE_EQ(where_.longest_silence_s(Category::kForward), 0);
}

}  // namespace
}  // namespace stepscope
