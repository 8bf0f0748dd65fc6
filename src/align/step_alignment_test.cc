#include "align/step_alignment.h"

#include <gtest/gtest.h>

#include "align/step_table.h"

namespace stepscope {
namespace {

std::vector<CollectiveIssue> issues(uint64_t first, uint64_t end, uint64_t group = 7) {
  std::vector<CollectiveIssue> out;
  for (uint64_t s = first; s < end; ++s) out.push_back({.group = group, .sequence = s});
  return out;
}

RankStep step_of(uint64_t number, uint64_t first, uint64_t end) {
  RankStep step;
  step.step = number;
  step.begin_ns = static_cast<int64_t>(first) * 1'000'000, step.end_ns = static_cast<int64_t>(end) * 1'000'000;
  step.own[index(Category::kForward)] = step.end_ns - step.begin_ns;
  step.segments = {step.own};
  step.collectives = issues(first, end);
  return step;
}

TEST(StepAlignmentTest, WhoBeginsAfterAnotherHasEndedBelongsFurtherDown) {
  StepAlignment a;
  a.note(0, 5, issues(10, 12)), a.note(1, 5, issues(12, 14)), a.note(2, 5, issues(11, 14));
  a.note(0, 6, issues(12, 14));
  EXPECT_EQ(a.settle(5), std::vector<int>{1});
  EXPECT_EQ(a.settle(6), std::vector<int>());
}

TEST(StepAlignmentTest, OperationsThatOverlapOtherGroupsAndMessagesAreNoEvidence) {
  StepAlignment a;
  a.note(0, 0, issues(0, 3)), a.note(1, 0, issues(2, 9));
  EXPECT_TRUE(a.settle(0).empty());
  a.note(0, 1, issues(3, 4, 7)), a.note(1, 1, issues(9, 12, 8));
  EXPECT_TRUE(a.settle(1).empty());
  std::vector<CollectiveIssue> messages = issues(50, 52);
  for (CollectiveIssue& m : messages) m.p2p = true;
  a.note(0, 2, issues(4, 5)), a.note(1, 2, messages);
  EXPECT_TRUE(a.settle(2).empty());
  a.note(0, 3, issues(0, 1, 0)), a.note(1, 3, issues(9, 10, 0));  // no group was told
  EXPECT_TRUE(a.settle(3).empty());
}

// Ranks that do not run one loop at all: rows are left as they are after a while.
TEST(StepAlignmentTest, RanksThatNeverCountAlikeAreLeftAlone) {
  StepAlignment a;
  size_t moved = 0;
  for (uint64_t row = 0; row < 1000; ++row) {
    a.note(0, row, issues(row, row + 1)), a.note(1, row, issues(1'000'000 + row, 1'000'001 + row));
    moved += a.settle(row).size();
  }
  EXPECT_GE(moved, StepAlignment::kLeastMoves);
  EXPECT_LE(moved, StepAlignment::kLeastMoves + 2);
}

// Rank 1 goes over two steps' operations in its step 3 and counts one less from there on.
TEST(StepAlignmentTest, RowsHoldWhatMetWhoeverTellsFirst) {
  for (const bool late_first : {false, true}) {
    std::vector<StepRow> rows;
    StepTable table([&](StepRow& row) { rows.push_back(row); });
    table.await(0), table.await(1);
    const auto tell = [&](int rank) {
      if (rank == 0)
        for (uint64_t i = 0; i < 10; ++i) table.add(0, step_of(i, 2 * i, 2 * i + 2));
      else
        for (uint64_t i = 0; i < 9; ++i)
          table.add(1, step_of(i, 2 * (i + (i > 3)), 2 * (i + (i > 3)) + (i == 3 ? 4 : 2)));
    };
    tell(late_first ? 1 : 0);
    table.close_ready();
    tell(late_first ? 0 : 1);
    table.close_ready();
    ASSERT_EQ(rows.size(), 10u) << late_first;
    for (const StepRow& row : rows) {
      ASSERT_EQ(row.cells.size(), row.step == 4 ? 1u : 2u) << row.step;
      if (row.step != 3 && row.step != 4) EXPECT_EQ(row.cells[0].end_ns, row.cells[1].end_ns) << row.step;
    }
    EXPECT_EQ(table.cells_seen(), 19u);
    EXPECT_EQ(table.cells_expected(), 19u);
    // What comes later goes where it belongs, and the next row waits for it.
    table.add(0, step_of(10, 20, 22));
    table.close_ready();
    EXPECT_EQ(rows.size(), 10u);
    table.add(1, step_of(9, 20, 22));
    table.close_ready();
    ASSERT_EQ(rows.size(), 11u);
    EXPECT_EQ(rows.back().cells.size(), 2u);
  }
}

// Rank 0 trains alone for two steps before the others join in: they are counted on from there.
TEST(StepAlignmentTest, StepsOfItsOwnBeforeTheOthersBegin) {
  std::vector<StepRow> rows;
  StepTable table([&](StepRow& row) { rows.push_back(row); });
  for (int r = 0; r < 3; ++r) table.await(r);
  for (uint64_t i = 0; i < 8; ++i) {
    table.add(0, i < 2 ? step_of(i, 0, 0) : step_of(i, i - 2, i - 1));
    for (int r = 1; r < 3; ++r) table.add(r, step_of(i, i, i + 1));
  }
  table.close_ready(true);
  for (const StepRow& row : rows)
    if (row.step >= 4 && row.step < 8)
      for (const Cell& cell : row.cells) EXPECT_EQ(cell.end_ns, row.cells[0].end_ns) << row.step;
}

}  // namespace
}  // namespace stepscope
