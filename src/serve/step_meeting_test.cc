#include "serve/step_meeting.h"

#include <gtest/gtest.h>

namespace stepscope {
namespace {

// Rank `rank` works, waits, transfers, and steps its optimizer.
Cell cell_of(int rank, float backward_ms, float wait_ms, float transfer_ms, float optimizer_ms) {
  Cell cell;
  cell.rank = rank;
  cell.ms[index(Category::kForward)] = 10;
  cell.ms[index(Category::kBackward)] = backward_ms;
  cell.ms[index(Category::kStragglerWait)] = wait_ms;
  cell.ms[index(Category::kCommTransfer)] = transfer_ms;
  cell.ms[index(Category::kOptimizer)] = optimizer_ms;
  cell.wall_ms = 10 + backward_ms + wait_ms + transfer_ms + optimizer_ms;
  return cell;
}

StepRow row_of(std::vector<Cell> cells) {
  StepRow row;
  row.cells = std::move(cells);
  for (const Cell& cell : row.cells) row.wall_ms = std::max(row.wall_ms, cell.wall_ms);
  return row;
}

TEST(StepMeeting, IsFromTheFirstArrivalToTheLast) {
  const auto m = meeting_of(row_of({cell_of(0, 20, 40, 5, 2), cell_of(1, 60, 0, 5, 2), cell_of(2, 30, 30, 5, 9)}));
  ASSERT_TRUE(m);
  EXPECT_FLOAT_EQ(m->first_ms, 30);
  EXPECT_FLOAT_EQ(m->last_ms, 70);
  EXPECT_FLOAT_EQ(m->end_ms, 75);
  EXPECT_EQ(m->last_rank, 1);
  EXPECT_EQ(m->tail_rank, 2);
}

TEST(StepMeeting, NoneWhereTheRanksDoNotLeaveTogether) {
  EXPECT_TRUE(meeting_of(row_of({cell_of(0, 20, 42, 5, 2), cell_of(1, 60, 0, 5, 2)})));
  EXPECT_FALSE(meeting_of(row_of({cell_of(0, 20, 50, 5, 2), cell_of(1, 60, 0, 5, 2)})));
}

TEST(StepMeeting, NoneWhereNobodyStandsOrSomeWereNotSeen) {
  EXPECT_FALSE(meeting_of(row_of({cell_of(0, 20, 0, 0, 2), cell_of(1, 20, 0, 0, 2)})));
  EXPECT_FALSE(meeting_of(row_of({cell_of(0, 20, 40, 5, 2)})));
  EXPECT_FALSE(meeting_of(row_of({})));
  Cell unsure = cell_of(0, 20, 40, 5, 2);
  unsure.ms[index(Category::kUnresolved)] = 1;
  EXPECT_FALSE(meeting_of(row_of({unsure, cell_of(1, 60, 0, 5, 2)})));
}

}  // namespace
}  // namespace stepscope
