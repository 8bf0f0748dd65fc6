#include "analyze/stopped.h"

#include <gtest/gtest.h>

#include <numeric>

#include "analyze/attribution.h"

namespace stepscope {
namespace {

constexpr uint64_t kGroup = 7;

// Two ranks in one collective: each `own` ms of forward before it and so long a stall.
StepRow row_of(std::vector<float> own_ms, std::vector<float> stall_ms) {
  StepRow row;
  for (size_t r = 0; r < own_ms.size(); ++r) {
    Cell cell;
    cell.rank = static_cast<int>(r);
    cell.ms[index(Category::kForward)] = own_ms[r];
    cell.wall_ms = own_ms[r] + stall_ms[r];
    cell.stall_ms = stall_ms[r];
    cell.segments.resize(2);
    cell.segments[0][index(Category::kForward)] = own_ms[r];
    cell.stalls.push_back({kGroup, 0, stall_ms[r], 0, Category::kBackward});
    row.cells.push_back(cell);
    row.wall_ms = std::max(row.wall_ms, cell.wall_ms);
  }
  attribute(row);
  return row;
}

float sum(const Cell& cell) { return std::accumulate(cell.ms.begin(), cell.ms.end(), 0.0f); }

TEST(ChargeStopped, TheStoppedRankPausesAndTheOthersWait) {
  StepRow row = row_of({5, 5}, {2400, 2401});
  charge_stopped(row, 0);
  const Cell &stopped = row.cells[0], &other = row.cells[1];
  EXPECT_FLOAT_EQ(stopped.ms[index(Category::kHostPause)], 2400);
  EXPECT_FLOAT_EQ(stopped.ms[index(Category::kCommTransfer)], 0);
  EXPECT_FLOAT_EQ(stopped.segments[0][index(Category::kHostPause)], 2400);
  EXPECT_FLOAT_EQ(stopped.caused_ms, 2401);
  EXPECT_FLOAT_EQ(other.ms[index(Category::kStragglerWait)], 2401);
  EXPECT_FLOAT_EQ(other.wait_ms, 2401);
  EXPECT_FLOAT_EQ(row.caused_ms(0, 1), 2401);
  for (const Cell& cell : row.cells) EXPECT_FLOAT_EQ(sum(cell), cell.wall_ms);
}

TEST(ChargeStopped, LeavesShortTransfersAndLoneRanksAlone) {
  StepRow brief = row_of({5, 5}, {90, 90});
  charge_stopped(brief, 0);
  EXPECT_FLOAT_EQ(brief.cells[0].ms[index(Category::kCommTransfer)], 90);

  StepRow alone = row_of({5}, {2400});
  charge_stopped(alone, 0);
  EXPECT_FLOAT_EQ(alone.cells[0].ms[index(Category::kCommTransfer)], 2400);

  // Stopped outside of the collective: the rule has it right already.
  StepRow outside = row_of({2400, 5}, {1, 2396});
  const float caused_ms = outside.cells[0].caused_ms;
  charge_stopped(outside, 0);
  EXPECT_FLOAT_EQ(outside.cells[0].caused_ms, caused_ms);
  charge_stopped(outside, 9);  // nobody
}

}  // namespace
}  // namespace stepscope
