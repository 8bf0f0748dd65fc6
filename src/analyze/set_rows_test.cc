#include "analyze/set_rows.h"

#include <gtest/gtest.h>

namespace stepscope {
namespace {

Cell cell(int rank, float forward_ms, float backward_ms) {
  Cell c;
  c.rank = rank, c.wall_ms = 100;
  c.ms[index(Category::kForward)] = forward_ms, c.ms[index(Category::kBackward)] = backward_ms;
  return c;
}

RankSets two_sets(RankSets::OwnTime of_the_first) {
  RankSets sets{.set_of = {}, .own_time = {of_the_first, RankSets::OwnTime::kLeast}};
  for (int rank = 0; rank < 4; ++rank) sets.add(rank, static_cast<size_t>(rank / 2));
  return sets;
}

TEST(SetRows, ASetHasWhatAllOfItsRanksHaveAndCausesWhatOthersWaitFor) {
  StepRow row;
  row.step = 7, row.wall_ms = 100;
  row.cells = {cell(0, 10, 20), cell(1, 12, 18), cell(2, 30, 50), cell(3, 31, 20), cell(9, 1, 1)};
  row.caused = {{2, 0, 30}, {2, 1, 40}, {2, 3, 25}, {3, 1, 10}, {0, 2, 4}};
  Rows rows;
  rows.add(row, 3);
  const SetRows sets(rows, two_sets(RankSets::OwnTime::kLeast));
  ASSERT_EQ(sets.rows().size(), 1u);
  const StepRow& made = *sets.rows().rows[0];
  ASSERT_EQ(made.cells.size(), 2u);  // rank 9 is in no set
  EXPECT_EQ(made.cells[0].ms[index(Category::kForward)], 10);
  EXPECT_EQ(made.cells[0].ms[index(Category::kBackward)], 18);
  EXPECT_EQ(made.cells[1].ms[index(Category::kForward)], 30);
  EXPECT_EQ(made.cells[1].ms[index(Category::kBackward)], 20);  // rank 2 alone has more
  EXPECT_EQ(made.caused_ms(1, 0), (30 + 40 + 10) / 2.0f);
  EXPECT_EQ(made.caused_ms(0, 1), 4 / 2.0f);
  EXPECT_EQ(made.cells[1].caused_ms, 40);
  EXPECT_EQ(sets.rows().weights[0], 3);
  EXPECT_EQ(sets.behind(sets.rows()).rows[0], &row);
}

TEST(SetRows, ASetThatOthersAreComparedWithHasTheMedianOfItsRanks) {
  StepRow row;
  row.wall_ms = 100;
  row.cells = {cell(0, 10, 20), cell(1, 12, 18), cell(2, 30, 50), cell(3, 31, 20)};
  Rows rows;
  rows.add(row, 1);
  const SetRows sets(rows, two_sets(RankSets::OwnTime::kMedian));
  const StepRow& made = *sets.rows().rows[0];
  EXPECT_EQ(made.cells[0].ms[index(Category::kForward)], 11);
  EXPECT_EQ(made.cells[1].ms[index(Category::kForward)], 30);
}

}  // namespace
}  // namespace stepscope
