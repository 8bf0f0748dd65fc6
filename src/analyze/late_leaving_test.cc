#include "analyze/late_leaving.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "analyze/attribution.h"

namespace stepscope {
namespace {

struct Told {
  float own_ms, stall_ms, behind_ms;
  double cpu_ms;
};

// Ranks that work, meet once at the end of backward and then work for a little more.
StepRow row_of(uint64_t step, const std::vector<Told>& ranks) {
  StepRow row{.step = step};
  for (size_t r = 0; r < ranks.size(); ++r) {
    const Told& t = ranks[r];
    Cell& cell = row.cells.emplace_back();
    cell.rank = static_cast<int>(r);
    cell.segments.resize(2);
    cell.segments[0][index(Category::kBackward)] = t.own_ms;
    cell.segments[1][index(Category::kOptimizer)] = t.behind_ms;
    cell.ms[index(Category::kBackward)] = t.own_ms, cell.ms[index(Category::kOptimizer)] = t.behind_ms;
    cell.stalls.push_back({.group = 1, .sequence = step, .stall_ms = t.stall_ms, .phase = Category::kBackward});
    cell.stall_ms = t.stall_ms;
    cell.host_ms = cell.ms;
    cell.host_ms[index(Category::kCommTransfer)] = t.stall_ms;
    cell.wall_ms = t.own_ms + t.stall_ms + t.behind_ms;
    cell.cpu_ms = t.cpu_ms;
  }
  return row;
}

StepRow settled(LateLeaving& late, StepRow row) {
  late.settle(row);
  attribute(row);
  for (const Cell& cell : row.cells) {
    EXPECT_NEAR(std::accumulate(cell.ms.begin(), cell.ms.end(), 0.0f), cell.wall_ms, 1e-3);
    EXPECT_NEAR(std::accumulate(cell.host_ms.begin(), cell.host_ms.end(), 0.0f), cell.wall_ms, 1e-3);
  }
  return row;
}

float waited(const StepRow& row, int rank) { return row.find(rank)->ms[index(Category::kStragglerWait)]; }
float backward(const StepRow& row, int rank) { return row.find(rank)->ms[index(Category::kBackward)]; }

const std::vector<Told> kUsual = {{20, 5, 2, 22}, {20, 5, 2, 22}};

TEST(LateLeavingTest, WhoComputesBehindTheWaitIsNotHeldUpByTheOther) {
  LateLeaving late;
  settled(late, row_of(0, kUsual));
  const StepRow row = settled(late, row_of(1, {{20, 5, 2, 22}, {20, 505, 2, 520}}));
  EXPECT_NEAR(waited(row, 1), 2, 0.1);  // 498 of 500 ms were on a core
  EXPECT_NEAR(backward(row, 1), 518, 0.1);
  EXPECT_NEAR(row.find(0)->caused_ms, 2, 0.1);
  // The other waits for it at the next one, and that is its own lateness.
  const StepRow next = settled(late, row_of(2, {{20, 505, 2, 22}, {20, 5, 2, 22}}));
  EXPECT_NEAR(waited(next, 0), 500, 0.1);
  EXPECT_NEAR(next.find(1)->caused_ms, 500, 0.1);
}

TEST(LateLeavingTest, WhoSpinsWhileItWaitsForALateRankWaits) {
  LateLeaving late;
  settled(late, row_of(0, kUsual));
  const StepRow row = settled(late, row_of(1, {{520, 5, 2, 527}, {20, 505, 2, 527}}));
  EXPECT_NEAR(waited(row, 1), 500, 0.1);
  EXPECT_NEAR(row.find(0)->caused_ms, 500, 0.1);
}

// It was late behind the sync point before: what it did there is in the row before.
TEST(LateLeavingTest, LatenessBeginsAtTheSyncPointBefore) {
  LateLeaving late;
  settled(late, row_of(0, {{20, 5, 400, 422}, {20, 5, 2, 22}}));
  const StepRow row = settled(late, row_of(1, {{20, 5, 2, 22}, {20, 403, 2, 425}}));
  EXPECT_NEAR(waited(row, 1), 398, 0.1);
}

TEST(LateLeavingTest, ATransferThatEndsLaterOnOneRankUsesNoCore) {
  LateLeaving late;
  settled(late, row_of(0, kUsual));
  const StepRow row = settled(late, row_of(1, {{20, 5, 2, 22}, {20, 105, 2, 22}}));
  EXPECT_NEAR(waited(row, 1), 100, 0.1);
}

TEST(LateLeavingTest, WithoutTheRowBeforeOrCpuTimeNothingIsTaken) {
  LateLeaving late;
  EXPECT_NEAR(waited(settled(late, row_of(5, {{20, 5, 2, 22}, {20, 505, 2, 520}})), 1), 500, 0.1);
  EXPECT_NEAR(waited(settled(late, row_of(6, {{20, 5, 2, -1}, {20, 505, 2, -1}})), 1), 500, 0.1);
  EXPECT_NEAR(waited(settled(late, row_of(9, {{20, 5, 2, 22}, {20, 505, 2, 520}})), 1), 500, 0.1);
}

}  // namespace
}  // namespace stepscope
