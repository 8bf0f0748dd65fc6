#include "analyze/whatif.h"

#include <gtest/gtest.h>

#include "worked_rows.h"

namespace stepscope {
namespace {

using testing::Played;
using testing::Work;

Reduction less_backward(int rank, double ms) {
  return removal_of(Category::kBackward, [=](size_t, const Cell& cell) { return cell.rank == rank ? ms : 0; });
}

TEST(WhatIf, TheReplayOfWorkedStepsIsTheirWallTime) {
  Played run;
  for (int i = 0; i < 4; ++i) run.add({{0}, {.rank = 1, .backward_ms = 30}});
  EXPECT_NEAR(replay_ms(run.rows(), nullptr), 4 * 42, 1e-4);
}

// With two unequal stragglers, mending the worst gains only down to the second.
TEST(WhatIf, TheSecondStragglerIsTheLimit) {
  Played run;
  for (int i = 0; i < 4; ++i) run.add({{0}, {.rank = 1, .backward_ms = 30}, {.rank = 2, .backward_ms = 36}});
  EXPECT_NEAR(*saved_share(run.rows(), less_backward(2, 16)), 6.0 / 48, 1e-6);
  EXPECT_NEAR(*saved_share(run.rows(), less_backward(1, 10)), 0, 1e-6);
}

TEST(WhatIf, ACategoryTakenFromAllRanks) {
  Played run;
  for (int i = 0; i < 4; ++i) run.add({{0}, {.rank = 1, .forward_ms = 12}});
  EXPECT_NEAR(*saved_share(run.rows(), removal_of(Category::kForward)), 12.0 / 34, 1e-6);
  EXPECT_NEAR(*saved_share(run.rows(), removal_of(Category::kInputWait)), 0, 1e-6);
}

// Ranks 0 1 | 2 3 meet in pairs (1 ms), then all of them (3 ms): what rank 3 is late by goes through both.
TEST(WhatIf, AGroupInsideAGroup) {
  const Groups groups = {{1, {"", {0, 1, 2, 3}}}, {2, {"tp", {0, 1}}}, {3, {"tp", {2, 3}}}};
  const std::vector<float> own = {10, 10, 10, 17};
  StepRow row;
  for (int rank = 0; rank < 4; ++rank) {
    Cell& cell = row.cells.emplace_back();
    cell.rank = rank;
    cell.ms[index(Category::kForward)] = own[static_cast<size_t>(rank)];
    cell.segments = {cell.ms, {}, {}};
    const float pair = rank < 2 ? 10 : 17;
    cell.stalls = {{rank < 2 ? 2u : 3u, 0, pair - own[static_cast<size_t>(rank)] + 1, 0, Category::kForward},
                   {1, 0, 17 - pair + 3, 0, Category::kBackward}};
    cell.stall_ms = cell.stalls[0].stall_ms + cell.stalls[1].stall_ms;
    cell.wall_ms = row.wall_ms = 21;
  }
  attribute(row, groups, 4);
  EXPECT_FLOAT_EQ(row.cells[3].caused_ms, 7 + 7 + 7);  // the pair's other rank, and both of the other pair
  Rows rows;
  rows.add(row, 1);
  EXPECT_NEAR(replay_ms(rows, nullptr), 21, 1e-4);
  const auto less = removal_of(Category::kForward, [](size_t, const Cell& cell) { return cell.rank == 3 ? 7 : 0; });
  EXPECT_NEAR(*saved_share(rows, less), 7.0 / 21, 1e-6);
}

TEST(WhatIf, WithoutDetailAStepIsOneSyncPointAtItsEnd) {
  Played run;
  for (int i = 0; i < 4; ++i) run.add({{0}, {.rank = 1, .backward_ms = 30}});
  for (StepRow& row : run.table) row.drop_detail();
  EXPECT_NEAR(replay_ms(run.rows(), nullptr), 4 * 42, 1e-4);
  EXPECT_NEAR(*saved_share(run.rows(), less_backward(1, 10)), 10.0 / 42, 1e-6);
}

TEST(WhatIf, SyncPointsThatDoNotFitEndTheStepTogether) {
  Played run;
  run.add({{0}, {.rank = 1, .backward_ms = 30}});
  run.table[0].cells[0].stalls[0].sequence = 77;  // its record of the sync point was lost: that of another one is left
  run.table[0].cells[0].stalls.push_back({1, 0, 0, 0, Category::kBackward});
  run.table[0].cells[0].segments.emplace_back();
  run.table[0].cells[1].stalls.push_back({1, 77, 0, 0, Category::kBackward});
  run.table[0].cells[1].segments.emplace_back();
  EXPECT_NEAR(replay_ms(run.rows(), nullptr), 42, 1e-4);
}

TEST(WhatIf, BehindRanksThatWereNotSeenNothingIsPromised) {
  Played run;
  for (int i = 0; i < 4; ++i) run.add({{0}, {.rank = 1, .backward_ms = 30}});
  EXPECT_TRUE(saved_share(run.rows(), less_backward(1, 10)));
  run.table[0].cells[0].ms[index(Category::kUnresolved)] = 1;  // a quarter of the time
  EXPECT_FALSE(saved_share(run.rows(), less_backward(1, 10)));
}

TEST(WhatIf, NothingIsNoSaving) { EXPECT_EQ(saved_share(Rows{}, removal_of(Category::kForward)), 0); }

}  // namespace
}  // namespace stepscope
