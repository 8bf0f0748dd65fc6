#include "analyze/attribution.h"

#include <gtest/gtest.h>

#include <numeric>

#include "analyze/rows.h"
#include "analyze/stopped.h"
#include "analyze/whatif.h"

namespace stepscope {
namespace {

constexpr uint64_t kWorld = 1, kTp0 = 2, kTp1 = 3, kDp0 = 4, kDp1 = 5, kPipe = 6;

struct Wait {
  uint64_t group = kWorld, sequence = 0;
  float ms = 0;
  StallSyncPoint sync_point{};
};

StallSyncPoint to(int peer) { return {.peer = peer, .sends = true}; }
StallSyncPoint from(int peer) { return {.peer = peer}; }

// A row of ranks that compute for a millisecond before each wait; ranks without waits were not seen.
StepRow row_of(const std::vector<std::vector<Wait>>& ranks) {
  StepRow row;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const std::vector<Wait>& waits = ranks[rank];
    if (waits.empty()) continue;
    Cell& cell = row.cells.emplace_back();
    cell.rank = static_cast<int>(rank);
    cell.segments.emplace_back();
    for (const Wait& w : waits) {
      cell.ms[index(Category::kForward)] += 1;
      cell.segments.back()[index(Category::kForward)] = 1;
      cell.segments.emplace_back();
      cell.stalls.push_back({w.group, w.sequence, w.ms, 0, Category::kBackward, 0, w.sync_point});
      cell.stall_ms += w.ms;
      cell.wall_ms += 1 + w.ms;
    }
    row.wall_ms = std::max(row.wall_ms, cell.wall_ms);
  }
  return row;
}

float part(const StepRow& row, int rank, Category c) { return row.find(rank)->ms[index(c)]; }
float transfer(const StepRow& row, int rank) { return part(row, rank, Category::kCommTransfer); }
float waiting(const StepRow& row, int rank) { return part(row, rank, Category::kStragglerWait); }
float unresolved(const StepRow& row, int rank) { return part(row, rank, Category::kUnresolved); }

void expect_closed(const StepRow& row) {
  for (const Cell& cell : row.cells)
    EXPECT_NEAR(std::accumulate(cell.ms.begin(), cell.ms.end(), 0.0f), cell.wall_ms, 1e-4);
}

const Groups kFour = {{kWorld, {"", {0, 1, 2, 3}}},
                      {kTp0, {"tp", {0, 1}}},
                      {kTp1, {"tp", {2, 3}}},
                      {kDp0, {"dp", {0, 2}}},
                      {kDp1, {"dp", {1, 3}}}};

TEST(Attribution, AWholeGroupIsSplitIntoTransferAndWaiting) {
  StepRow row = row_of({{{kWorld, 0, 12}}, {{kWorld, 0, 2}}});
  attribute(row, {{kWorld, {"", {0, 1}}}}, 2);
  EXPECT_FLOAT_EQ(transfer(row, 0), 2);
  EXPECT_FLOAT_EQ(waiting(row, 0), 10);
  EXPECT_FLOAT_EQ(row.cells[1].caused_ms, 10);
  EXPECT_FLOAT_EQ(row.cells[1].caused_unsure_ms, 0);
  expect_closed(row);
}

TEST(Attribution, OfAGroupNotAllSeenTheCommonPartIsUnresolved) {
  for (const Groups& groups : {kFour, Groups{}}) {  // whether the group was named or not
    StepRow row = row_of({{{kWorld, 0, 52}}, {{kWorld, 0, 40}}, {}, {}});
    attribute(row, groups, 4);
    for (int r : {0, 1}) {
      EXPECT_FLOAT_EQ(unresolved(row, r), 40);
      EXPECT_FLOAT_EQ(transfer(row, r), 0);
    }
    EXPECT_FLOAT_EQ(waiting(row, 0), 12);
    EXPECT_FLOAT_EQ(row.cells[1].caused_ms, 12);
    EXPECT_FLOAT_EQ(row.cells[1].caused_unsure_ms, 12);
    expect_closed(row);
  }
}

TEST(Attribution, ALoneRankOfAJobKnowsNothingOfTheLink) {
  StepRow lone = row_of({{{kWorld, 0, 40}}});
  attribute(lone, {{kWorld, {"", {0, 1}}}}, 2);
  EXPECT_FLOAT_EQ(unresolved(lone, 0), 40);
  StepRow single = row_of({{{0, 0, 40}}});
  attribute(single, {}, 1);
  EXPECT_FLOAT_EQ(transfer(single, 0), 40);
}

TEST(Attribution, AGroupInsideOfTheNodeIsJudgedFully) {
  // Node 0 of two: tensor parallel inside, data parallel across.
  StepRow row = row_of({{{kTp0, 0, 21}, {kDp0, 0, 30}}, {{kTp0, 0, 1}, {kDp1, 0, 30}}, {}, {}});
  attribute(row, kFour, 4);
  EXPECT_FLOAT_EQ(transfer(row, 0), 1);
  EXPECT_FLOAT_EQ(waiting(row, 0), 20);
  EXPECT_FLOAT_EQ(unresolved(row, 0), 30);
  EXPECT_FLOAT_EQ(row.cells[1].caused_ms, 20);
  EXPECT_FLOAT_EQ(row.cells[1].caused_unsure_ms, 0);
  expect_closed(row);
}

TEST(Attribution, TensorParallelInsideOfDataParallelNamesTheRoot) {
  // Rank 1 is late in its TP group; its partner brings the lateness to the DP group of rank 2.
  StepRow row = row_of({{{kTp0, 0, 10}, {kDp0, 0, 1}},
                        {{kTp0, 0, 0.5}, {kDp1, 0, 1}},
                        {{kTp1, 0, 0.5}, {kDp0, 0, 10.5}},
                        {{kTp1, 0, 0.5}, {kDp1, 0, 10.5}}});
  attribute(row, kFour, 4);
  EXPECT_FLOAT_EQ(row.cells[0].caused_ms, 0);
  EXPECT_FLOAT_EQ(row.cells[1].caused_ms, 9.5 + 9.5 + 9.5);
  EXPECT_FLOAT_EQ(row.cells[2].caused_ms + row.cells[3].caused_ms, 0);
  expect_closed(row);
}

TEST(Attribution, DataParallelGroupsOfOneNumberAreApart) {
  // Two data-parallel groups run their collective 0 at once; rank 2 is late in its own, which says nothing of the
  // other.
  StepRow row = row_of({{{kDp0, 0, 20}}, {{kDp1, 0, 3}}, {{kDp0, 0, 1}}, {{kDp1, 0, 3}}});
  attribute(row, kFour, 4);
  EXPECT_FLOAT_EQ(waiting(row, 0), 19);
  EXPECT_FLOAT_EQ(waiting(row, 1), 0);
  EXPECT_FLOAT_EQ(transfer(row, 1), 3);
}

TEST(Attribution, OverlappingGroupsMeetEachInItsOwn) {
  const Groups groups = {{kDp0, {"", {0, 1}}}, {kDp1, {"", {1, 2}}}};
  StepRow row = row_of({{{kDp0, 0, 9}}, {{kDp0, 0, 1}, {kDp1, 0, 7}}, {{kDp1, 0, 2}}});
  attribute(row, groups, 3);
  EXPECT_FLOAT_EQ(waiting(row, 0), 8);
  EXPECT_FLOAT_EQ(waiting(row, 1), 5);
  EXPECT_FLOAT_EQ(row.cells[1].caused_ms, 8);
  EXPECT_FLOAT_EQ(row.cells[2].caused_ms, 5);
}

TEST(Attribution, MessagesMeetTheirPeerAndNoCollective) {
  // A pipeline of three stages in one group beside an all-reduce of the same number.
  const Groups groups = {{kPipe, {"pp", {0, 1, 2}}}};
  StepRow row = row_of({{{kPipe, 0, 0.5, to(1)}, {kPipe, 0, 8}},
                        {{kPipe, 0, 6, from(0)}, {kPipe, 0, 0.5, to(2)}, {kPipe, 0, 3}},
                        {{kPipe, 0, 9, from(1)}, {kPipe, 0, 2}}});
  attribute(row, groups, 3);
  EXPECT_FLOAT_EQ(waiting(row, 0), 6);        // in the all-reduce, for rank 2
  EXPECT_FLOAT_EQ(waiting(row, 1), 5.5 + 1);  // for rank 0's message, then for rank 2
  EXPECT_FLOAT_EQ(waiting(row, 2), 8.5);      // for rank 1's message, which rank 0 delayed
  EXPECT_FLOAT_EQ(row.caused_ms(0, 2), 5.5);
  EXPECT_FLOAT_EQ(row.caused_ms(1, 2), 3);
  expect_closed(row);
}

TEST(Attribution, TheTwoDirectionsOfAPairAreApart) {
  const Groups groups = {{kPipe, {"pp", {0, 1}}}};
  StepRow row =
      row_of({{{kPipe, 0, 1, to(1)}, {kPipe, 0, 30, from(1)}}, {{kPipe, 0, 5, from(0)}, {kPipe, 0, 2, to(0)}}});
  attribute(row, groups, 2);
  EXPECT_FLOAT_EQ(waiting(row, 0), 28);
  EXPECT_FLOAT_EQ(waiting(row, 1), 4);
}

TEST(Attribution, AMessageToAnUnseenStageIsUnresolved) {
  StepRow row = row_of({{{kPipe, 0, 30, from(2)}}, {{kPipe, 0, 30, from(3)}}, {}, {}});
  attribute(row, {{kPipe, {"pp", {0, 1, 2, 3}}}}, 4);
  EXPECT_FLOAT_EQ(unresolved(row, 0), 30);
  EXPECT_FLOAT_EQ(unresolved(row, 1), 30);
}

TEST(Attribution, CountedWaitsMeetOnlyWhereTheJobIsOneGroup) {
  const StallSyncPoint counted{.counted = true};
  StepRow hybrid = row_of(
      {{{kWorld, 0, 10, counted}}, {{kWorld, 0, 2, counted}}, {{kWorld, 0, 10, counted}}, {{kWorld, 0, 10, counted}}});
  StepRow plain = hybrid;
  attribute(hybrid, kFour, 4);  // the first wait may be in a TP group here and in a DP group there
  EXPECT_FLOAT_EQ(transfer(hybrid, 1), 0);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_FLOAT_EQ(unresolved(hybrid, rank), rank == 1 ? 2 : 10);
    EXPECT_FLOAT_EQ(hybrid.find(rank)->caused_ms, 0);
  }
  EXPECT_TRUE(hybrid.caused.empty());
  expect_closed(hybrid);
  attribute(plain, {{kWorld, {"", {0, 1, 2, 3}}}}, 4);
  EXPECT_FLOAT_EQ(transfer(plain, 1), 2);
  EXPECT_FLOAT_EQ(waiting(plain, 0), 8);
}

TEST(Attribution, OfACommunicatorOnlyItsSizeIsKnown) {
  const Groups groups = {{kTp0, {.size = 2}}, {kDp0, {.size = 4}}};
  StepRow row = row_of({{{kTp0, 0, 5}, {kDp0, 0, 7}}, {{kTp0, 0, 1}, {kDp0, 0, 7}}, {}, {}});
  attribute(row, groups, 4);
  EXPECT_FLOAT_EQ(transfer(row, 0), 1);
  EXPECT_FLOAT_EQ(unresolved(row, 0), 7);
  // Nobody told anything, but every rank was there.
  StepRow whole = row_of({{{kTp0, 0, 5}}, {{kTp0, 0, 1}}, {{kTp1, 0, 3}}, {{kTp1, 0, 3}}});
  attribute(whole, {}, 4);
  EXPECT_FLOAT_EQ(transfer(whole, 0), 1);
  EXPECT_FLOAT_EQ(waiting(whole, 0), 4);
}

TEST(Attribution, AStoppedRankIsACauseInAHalfSeenGroupToo) {
  StepRow row = row_of({{{kWorld, 0, 2401}}, {{kWorld, 0, 2400}}, {}});
  attribute(row, {}, 3);
  charge_stopped(row, 1);
  EXPECT_FLOAT_EQ(part(row, 1, Category::kHostPause), 2400);
  EXPECT_FLOAT_EQ(unresolved(row, 0), 0);
  EXPECT_FLOAT_EQ(waiting(row, 0), 2401);
  expect_closed(row);
}

TEST(Attribution, TheHostBesideAGpuIsAsUnresolvedAsTheGpu) {
  StepRow row = row_of({{{kWorld, 0, 40}}, {}});
  row.cells[0].gpu = true;
  row.cells[0].host_ms[index(Category::kCommTransfer)] = 3;
  attribute(row, {}, 2);
  EXPECT_FLOAT_EQ(row.cells[0].host_ms[index(Category::kCommTransfer)], 0);
  EXPECT_FLOAT_EQ(row.cells[0].host_ms[index(Category::kUnresolved)], 3);
}

TEST(WhatIf, OfHalfSeenStepsNoSavingIsKnown) {
  const auto saving = [](int world) {
    static StepRow row;
    row = row_of({{{kWorld, 0, 12}}, {{kWorld, 0, 2}}});
    row.cells[1].ms[index(Category::kForward)] = row.cells[1].segments[0][index(Category::kForward)] = 11;
    row.cells[1].wall_ms = 13;
    attribute(row, {}, world);
    Rows rows;
    rows.add(row, 1);
    return saved_share(rows, [](size_t, const Cell& cell) {
      LedgerMs cut{};
      if (cell.rank == 1) cut[index(Category::kForward)] = 10;
      return cut;
    });
  };
  ASSERT_TRUE(saving(2));
  EXPECT_NEAR(*saving(2), 10.0 / 13, 1e-6);
  EXPECT_FALSE(saving(4));
}

}  // namespace
}  // namespace stepscope
