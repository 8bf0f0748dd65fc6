#include "analyze/work_pieces.h"

#include <gtest/gtest.h>

#include "worked_rows.h"

namespace stepscope {
namespace {

using testing::met;

constexpr auto kForward = static_cast<uint16_t>(index(Category::kForward));
constexpr auto kBackward = static_cast<uint16_t>(index(Category::kBackward));

// Rank 0: 10 + 20; rank 1: 10 + 50, in which it was on a core for 30 of 60 ms: it slept where it is late.
StepRow sleeper() {
  StepRow row = met(0, {{0}, {.rank = 1, .backward_ms = 50}});
  row.cells[0].cpu_ms = row.cells[1].cpu_ms = 30;
  return row;
}

TEST(WorkPieces, ASleepIsWhereTheRankIsLate) {
  const StepRow row = sleeper();
  const auto pieces = pieces_of(row, RowSegments(row));
  ASSERT_EQ(pieces[1].size(), 2u);
  EXPECT_EQ(pieces[1][0].key, (PieceKey{0, kForward, 0}));
  EXPECT_EQ(pieces[1][1].key, (PieceKey{0, kBackward, 0}));
  EXPECT_NEAR(pieces[1][0].idle_ms, 0, 1e-6);
  EXPECT_NEAR(pieces[1][1].idle_ms, 30, 1e-5);
  EXPECT_NEAR(pieces[1][1].excess_ms, 30, 1e-5);
  EXPECT_NEAR(pieces[0][1].idle_ms, 0, 1e-6);
}

TEST(WorkPieces, BackwardIsCutWhereBucketsWereIssued) {
  StepRow row = sleeper();
  row.cells[0].bucket_ms = {5, 15};
  row.cells[1].bucket_ms = {5, 45};
  const auto pieces = pieces_of(row, RowSegments(row));
  ASSERT_EQ(pieces[1].size(), 4u);
  EXPECT_NEAR(pieces[1][2].ms, 40, 1e-5);
  EXPECT_NEAR(pieces[1][2].idle_ms, 30, 1e-5);
  EXPECT_EQ(pieces[1][2].key, (PieceKey{0, kBackward, 1}));
  EXPECT_NEAR(pieces[1][3].ms, 5, 1e-5);
  EXPECT_NEAR(pieces[1][3].idle_ms, 0, 1e-6);
}

// Of two backwards in a step each counts from its own begin.
TEST(WorkPieces, BucketsOfSeveralBackwardsDoNotCut) {
  StepRow row = sleeper();
  row.cells[1].bucket_ms = {5, 15, 5, 15};
  EXPECT_EQ(pieces_of(row, RowSegments(row))[1].size(), 2u);
}

TEST(WorkPieces, WaitingByNatureIsIdleWhereNobodyToldTheCpuTime) {
  StepRow row = met(0, {{0}, {1}});
  for (Cell& cell : row.cells) {
    cell.segments[0][index(Category::kInputWait)] = 7;
    cell.cpu_ms = std::numeric_limits<float>::quiet_NaN();
  }
  const auto pieces = pieces_of(row, RowSegments(row));
  EXPECT_NEAR(pieces[0][0].idle_ms, 7, 1e-5);
  EXPECT_NEAR(pieces[0][1].idle_ms, 0, 1e-6);
}

// Rank 1 waited 7 ms for input, rank 0 not at all; that its forward took 2 ms longer is no sleep.
TEST(WorkPieces, ASleepIsInWaitingRatherThanInWork) {
  StepRow row = met(0, {{0}, {.rank = 1, .forward_ms = 12}});
  row.cells[1].segments[0][index(Category::kInputWait)] = 7;
  row.cells[0].cpu_ms = 30, row.cells[1].cpu_ms = 32;
  const auto pieces = pieces_of(row, RowSegments(row));
  EXPECT_NEAR(pieces[1][0].idle_ms, 7, 1e-5);
  EXPECT_NEAR(pieces[1][0].excess_ms, 7, 1e-5);
  EXPECT_NEAR(pieces[1][1].idle_ms, 0, 1e-5);
  EXPECT_FALSE(pieces[1][0].unsure || pieces[1][1].unsure);
}

TEST(WorkPieces, WhatIsLateIsTakenAwayFirst) {
  StepRow row = sleeper();
  row.cells[0].bucket_ms = {5, 15};
  row.cells[1].bucket_ms = {5, 45};
  auto pieces = pieces_of(row, RowSegments(row));
  LedgerMs cut{};
  cut[index(Category::kBackward)] = 30;
  take_away(pieces[1], cut);
  for (size_t p = 0; p < 4; ++p) {
    EXPECT_NEAR(pieces[1][p].ms, pieces[0][p].ms, 1e-4);
    EXPECT_NEAR(pieces[1][p].idle_ms, 0, 1e-4);
  }
}

TEST(WorkPieces, WorkIsAddedToItsCategory) {
  const StepRow row = sleeper();
  auto pieces = pieces_of(row, RowSegments(row));
  LedgerMs cut{};
  cut[kBackward] = -10, cut[index(Category::kOptimizer)] = -5;
  take_away(pieces[0], cut);
  ASSERT_EQ(pieces[0].size(), 3u);
  EXPECT_NEAR(pieces[0][0].ms, 10, 1e-5);
  EXPECT_NEAR(pieces[0][1].busy_ms(), 30, 1e-5);
  EXPECT_EQ(pieces[0][2].key, (PieceKey{0, static_cast<uint16_t>(index(Category::kOptimizer)), 0}));
  EXPECT_NEAR(pieces[0][2].busy_ms(), 5, 1e-5);
}

}  // namespace
}  // namespace stepscope
