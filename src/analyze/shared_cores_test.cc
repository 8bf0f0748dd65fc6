#include "analyze/shared_cores.h"

#include <gtest/gtest.h>

#include "worked_rows.h"

namespace stepscope {
namespace {

using testing::Played;

// Two ranks on one host whose work takes 1 + k times as long beside each other.
CoreSharing one_host() {
  CoreSharing sharing;
  sharing.hosts.resize(1);
  for (int rank : {0, 1}) sharing.add(rank, 0);
  return sharing;
}

Reduction less_backward(int rank, double ms) {
  return removal_of(Category::kBackward, [=](size_t, const Cell& cell) { return cell.rank == rank ? ms : 0; });
}

// Rank 0 works 10 + 20 ms, rank 1 sleeps for 30 ms at the end of its backward; the transfer is 2 ms. They compute
// beside each other all the time, so mending it costs nothing.
TEST(SharedCores, ASleepAfterTheWorkHidesNothing) {
  Played run;
  run.add({{0}, {.rank = 1, .backward_ms = 50}});
  for (Cell& cell : run.table[0].cells) cell.cpu_ms = 30;
  run.table[0].cells[0].bucket_ms = {20};
  run.table[0].cells[1].bucket_ms = {20};
  EXPECT_NEAR(shared_cores_factor(run.rows(), less_backward(1, 30), one_host(), {1}), 1, 1e-3);
}

// Rank 1 sleeps for 30 ms before its work begins, in input_wait: rank 0 works alone for 30 ms, rank 1 after it for 30.
// Together both take 30 (1 + k): with k = 0.5 the step is 45 + 2 instead of 30 + 2.
TEST(SharedCores, ASleepBeforeTheWorkKeepsRanksApart) {
  Played run;
  run.add({{0}, {.rank = 1}}, 2);
  StepRow& row = run.table[0];
  Cell& late = row.cells[1];
  late.ms[index(Category::kInputWait)] = late.segments[0][index(Category::kInputWait)] = 30;
  late.wall_ms = row.wall_ms = 62, row.cells[0].wall_ms = 62;
  row.cells[0].stall_ms = row.cells[0].stalls[0].stall_ms = 32;
  for (Cell& cell : row.cells) cell.cpu_ms = 30;
  attribute(row);
  const double factor = shared_cores_factor(run.rows(), removal_of(Category::kInputWait), one_host(), {0.5});
  EXPECT_NEAR(factor, 47.0 / 32, 1e-3);
  EXPECT_NEAR(shared_cores_factor(run.rows(), removal_of(Category::kInputWait), one_host(), {0}), 1, 1e-9);
  CoreSharing apart;
  apart.hosts.resize(2);
  apart.add(0, 0), apart.add(1, 1);
  EXPECT_NEAR(shared_cores_factor(run.rows(), removal_of(Category::kInputWait), apart, {0.5, 0.5}), 1, 1e-9);
}

// Without a change the replay is the recording, whatever k.
TEST(SharedCores, NothingTakenAwayIsTheRecording) {
  Played run;
  for (int i = 0; i < 3; ++i) run.add({{0}, {.rank = 1, .backward_ms = 50}});
  EXPECT_NEAR(shared_cores_factor(run.rows(), nullptr, one_host(), {0.7}), 1, 1e-3);
}

// Where the steps are timed on devices, the cores of the host do not decide.
TEST(SharedCores, DevicesDoNotShareCores) {
  Played run;
  run.add({{0}, {.rank = 1, .backward_ms = 50}});
  for (Cell& cell : run.table[0].cells) cell.gpu = true;
  EXPECT_NEAR(shared_cores_factor(run.rows(), less_backward(1, 30), one_host(), {1}), 1, 1e-9);
}

}  // namespace
}  // namespace stepscope
