#include "analyze/changes.h"

#include <gtest/gtest.h>

#include "analyze/saved_range.h"
#include "worked_rows.h"

namespace stepscope {
namespace {

using testing::Played;

constexpr double kErrors = 0.01;  // of a range of steps that are all alike
constexpr double kCold = 0.1;

// Rank 1 takes 30 ms for backward, the others 20; 42 ms per step.
Played one_is_late(std::vector<int> others = {0}) {
  Played run;
  for (int i = 0; i < 8; ++i) {
    std::vector<testing::Work> ranks;
    for (const int rank : others) ranks.push_back({.rank = rank});
    ranks.insert(ranks.begin() + 1, {.rank = 1, .backward_ms = 30});
    run.add(ranks);
  }
  return run;
}

// Makes `ms` of the category the cell's own time before the sync point.
void set(Cell& cell, Category category, float ms) { cell.ms[index(category)] = cell.segments[0][index(category)] = ms; }

Reduction ten_less() {
  return removal_of(Category::kBackward, [](size_t, const Cell& cell) { return cell.rank == 1 ? 10 : 0; });
}

CoreSharing one_host(int ranks, const HostLoad& load) {
  CoreSharing sharing;
  sharing.hosts.push_back({{}, load});
  for (int rank = 0; rank < ranks; ++rank) sharing.add(rank, 0);
  return sharing;
}

// 10 ms more for one of two ranks are 5 ms more for both.
TEST(Changes, WorkThatIsSharedOutStays) {
  const Played run = one_is_late();
  const Rows rows = run.rows();
  EXPECT_NEAR(*saved_share(rows, ten_less()), 10.0 / 42, 1e-6);
  EXPECT_NEAR(*saved_share(rows, shared_out(rows, ten_less())), 5.0 / 42, 1e-6);
  const Played four = one_is_late({0, 2, 3});
  EXPECT_NEAR(*saved_share(four.rows(), shared_out(four.rows(), ten_less())), 7.5 / 42, 1e-6);
}

// 6 of the 10 ms were spent asleep: nobody has to sleep them instead.
TEST(Changes, WhatWasNoWorkIsNotSharedOut) {
  Played run = one_is_late();
  for (StepRow& row : run.table) row.cells[1].cpu_ms = 34;
  const Rows rows = run.rows();
  EXPECT_NEAR(*saved_share(rows, shared_out(rows, ten_less())), 8.0 / 42, 1e-6);
}

TEST(Changes, WaitingForInputIsNotSharedOut) {
  Played run = one_is_late();
  for (StepRow& row : run.table) {
    set(row.cells[1], Category::kInputWait, 10);
    set(row.cells[1], Category::kBackward, 20);
  }
  const Rows rows = run.rows();
  const Reduction cut = removal_of(Category::kInputWait);
  EXPECT_NEAR(*saved_share(rows, shared_out(rows, cut)), 10.0 / 42, 1e-6);
}

// What a rank has nothing of is added in front of its first sync point.
TEST(Changes, WorkMayBeNewToARank) {
  Played run = one_is_late();
  for (StepRow& row : run.table) {
    set(row.cells[0], Category::kForward, 30);
    set(row.cells[0], Category::kBackward, 0);
  }
  const Rows rows = run.rows();
  EXPECT_NEAR(*saved_share(rows, shared_out(rows, ten_less())), 5.0 / 42, 1e-6);
}

// All of it, or half; and what is left may run quicker without it.
TEST(Changes, WhatIsDoneOnPurposeIsDoneHalfAsOftenAtLeast) {
  Played run = one_is_late();
  const Rows rows = run.rows();
  const auto range = saved_range(rows, half_as_often(ten_less()), {});
  ASSERT_TRUE(range);
  EXPECT_TRUE(range->ends_differ);
  EXPECT_NEAR(range->share, 10.0 / 42, 1e-6);
  EXPECT_NEAR(range->low, 5.0 / 42 - kErrors, 1e-6);
  EXPECT_NEAR(range->high, (1 + kCold) * 10.0 / 42 + kErrors, 1e-6);
  EXPECT_FALSE(saved_range(rows, {.usual = ten_less()}, {})->ends_differ);
}

// 40 of 42 ms go: the rest cannot get quicker by more than a quarter of itself.
TEST(Changes, WhatIsLeftGetsQuickerByAPartOfItself) {
  Played run;
  for (int i = 0; i < 8; ++i) run.add({{.rank = 0, .forward_ms = 0, .backward_ms = 40}});
  const auto range = saved_range(run.rows(), {.usual = removal_of(Category::kBackward)}, {});
  ASSERT_TRUE(range);
  EXPECT_NEAR(range->high, 1 - 0.75 * 2.0 / 42 + kErrors, 1e-6);
}

// Two ranks load for 10 of 42 ms in their own thread and compute for 30. Done elsewhere on two cores that is as much
// work as before: 80 ms for two cores. On eight cores it is hidden.
TEST(Changes, LoadingElsewhereSharesTheCores) {
  Played run;
  for (int i = 0; i < 8; ++i) run.add({{0}, {1}}, 2);
  for (StepRow& row : run.table) {
    for (Cell& cell : row.cells) {
      set(cell, Category::kInputWait, 10);
      cell.wall_ms = 42;
      cell.cpu_ms = 40;
    }
    row.wall_ms = 42;
  }
  const Rows rows = run.rows();
  const Change moved{.usual = removal_of(Category::kInputWait), .goes_on = true};
  const auto of = [&](const Change& change, HostLoad load) { return *saved_range(rows, change, one_host(2, load)); };
  const SavedRange full = of(moved, {.cores = 2}), roomy = of(moved, {.cores = 8});
  EXPECT_TRUE(full.cores_full);
  EXPECT_NEAR(full.low, 1 - 40.0 / 42 - kErrors, 1e-6);
  EXPECT_NEAR(full.high, (1 + kCold) * 10.0 / 42 + kErrors, 1e-6);
  EXPECT_FALSE(roomy.cores_full);
  EXPECT_NEAR(roomy.low, 10.0 / 42 - kErrors, 1e-6);
  EXPECT_FALSE(of({.usual = moved.usual}, {.cores = 2}).cores_full);
  // Workers that use 1.5 cores leave half a core to each rank.
  EXPECT_TRUE(of({.usual = moved.usual}, {.cores = 2, .worker_cores = 1.5}).cores_full);
}

}  // namespace
}  // namespace stepscope
