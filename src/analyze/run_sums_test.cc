#include "analyze/run_sums.h"

#include <gtest/gtest.h>

namespace stepscope {
namespace {

Cell cell_of(int rank, float forward_ms, float wait_ms) {
  Cell cell;
  cell.rank = rank;
  cell.ms[index(Category::kForward)] = forward_ms;
  cell.ms[index(Category::kStragglerWait)] = wait_ms;
  cell.wall_ms = cell.host_wall_ms = forward_ms + wait_ms;
  cell.tokens = 100;
  return cell;
}

StepRow row_of(std::vector<Cell> cells) {
  StepRow row;
  row.cells = std::move(cells);
  for (const Cell& cell : row.cells) row.wall_ms = std::max(row.wall_ms, cell.wall_ms);
  return row;
}

TEST(RunSums, ARowCountsItsLongestRank) {
  RunSums sums;
  sums.add(row_of({cell_of(0, 10, 5), cell_of(1, 14, 0)}));
  sums.add(row_of({cell_of(0, 10, 0), cell_of(1, 16, 1)}));
  EXPECT_DOUBLE_EQ(sums.wall_ms, 15 + 17);
  EXPECT_DOUBLE_EQ(sums.ranks.at(0).wall_ms, 25);
  EXPECT_DOUBLE_EQ(sums.ranks.at(1).ms[index(Category::kForward)], 30);
  EXPECT_DOUBLE_EQ(sums.ranks.at(0).ms[index(Category::kStragglerWait)], 5);
  EXPECT_EQ(sums.ranks.at(1).steps, 2u);
  EXPECT_DOUBLE_EQ(sums.ranks.at(0).tokens, 200);
}

TEST(RunSums, ARankThatWasNotSeenCountsNothing) {
  RunSums sums;
  sums.add(row_of({cell_of(3, 10, 0)}));
  EXPECT_EQ(sums.ranks.size(), 1u);
  EXPECT_DOUBLE_EQ(sums.ranks.at(3).wall_ms, 10);
}

TEST(RunSums, ALateRankAddsWhatItIsLongerBy) {
  RunSums sums;
  StepRow row = row_of({cell_of(0, 10, 0)});
  sums.add(row);
  for (const auto& [wall, job] : {std::pair{8.0f, 10.0}, std::pair{13.0f, 13.0}}) {
    StepRow later = row_of({row.cells[0], cell_of(1, wall, 0)});
    RunSums with = sums;
    with.add_late(later, later.cells[1]);
    EXPECT_DOUBLE_EQ(with.wall_ms, job);
    EXPECT_DOUBLE_EQ(with.ranks.at(1).wall_ms, wall);
  }
}

TEST(RunSums, TheHostsLedgerStandsBesideTheDevices) {
  RunSums sums;
  Cell cell = cell_of(0, 10, 0);
  cell.gpu = true;
  cell.host_ms[index(Category::kForward)] = 2;
  cell.host_wall_ms = 2;
  sums.add(row_of({cell, cell_of(1, 10, 0)}));
  EXPECT_DOUBLE_EQ(sums.ranks.at(0).host_ms[index(Category::kForward)], 2);
  EXPECT_DOUBLE_EQ(sums.ranks.at(1).host_ms[index(Category::kForward)], 10);  // its only axis
  EXPECT_EQ(sums.ranks.at(0).gpu_steps, 1u);
  EXPECT_EQ(sums.ranks.at(1).gpu_steps, 0u);
}

}  // namespace
}  // namespace stepscope
