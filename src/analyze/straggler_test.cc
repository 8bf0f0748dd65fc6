#include "analyze/straggler.h"

#include <gtest/gtest.h>

#include "worked_rows.h"

namespace stepscope {
namespace {

using testing::Played;
using testing::Work;

constexpr size_t kBackward = index(Category::kBackward);

TEST(Straggler, OneRankOfTwo) {
  Played run;
  for (int i = 0; i < 10; ++i) run.add({{0}, {.rank = 1, .backward_ms = 30}});
  const auto all = rank_excess(run.rows(), {});
  ASSERT_EQ(all.size(), 2u);
  EXPECT_FALSE(all[0].late);
  EXPECT_TRUE(all[1].late);
  EXPECT_DOUBLE_EQ(all[1].excess_ms, 10);
  EXPECT_DOUBLE_EQ(all[0].excess_ms, -10);
  EXPECT_FLOAT_EQ(all[1].category_ms[kBackward], 10);
  EXPECT_FLOAT_EQ(all[1].category_ms[index(Category::kForward)], 0);
  EXPECT_FLOAT_EQ(all[1].own_ms[kBackward], 30);
  EXPECT_FLOAT_EQ(all[1].others_ms[kBackward], 20);
  EXPECT_DOUBLE_EQ(all[1].blame, 1);
  EXPECT_DOUBLE_EQ(all[1].positive, 1);
  EXPECT_DOUBLE_EQ(all[1].victim_wait_ms, 10);
}

// Half of the waiting is caused by each in turn: in a step the last of all is charged alone.
TEST(Straggler, TwoRanksOfFiveThatAreLastInTurn) {
  Played run;
  for (int i = 0; i < 16; ++i)
    run.add({{0},
             {1},
             {2},
             {.rank = 3, .backward_ms = i % 2 ? 30.f : 32.f},
             {.rank = 4, .backward_ms = i % 2 ? 32.f : 30.f}});
  const auto all = rank_excess(run.rows(), {.min_blame = 0.4});
  for (const RankExcess& e : all) EXPECT_EQ(e.late, e.rank >= 3) << e.rank;
  EXPECT_DOUBLE_EQ(all[3].excess_ms, 11);  // 10 and 12 beyond the median of {20, 20, 20, other}
  EXPECT_NEAR(all[3].blame, 0.5, 1e-6);
}

TEST(Straggler, RowsThatLostARankCompareThoseThatAreThere) {
  Played run;
  for (int i = 0; i < 12; ++i) {
    if (i % 4 == 3)
      run.add({{0}});  // rank 1 was not seen: nobody to compare with
    else
      run.add({{0}, {.rank = 1, .backward_ms = 30}});
  }
  const auto all = rank_excess(run.rows(), {});
  ASSERT_EQ(all.size(), 2u);
  EXPECT_TRUE(all[1].late);
  EXPECT_DOUBLE_EQ(all[1].excess_ms, 10);
  EXPECT_DOUBLE_EQ(all[1].positive, 1);  // of the steps in which it was compared
  EXPECT_NEAR(all[1].victim_wait_ms, 10.0 * 9 / 12, 1e-6);
}

TEST(Straggler, ARankThatJoinsLateIsJudgedFromThereOn) {
  Played run;
  for (int i = 0; i < 8; ++i) run.add({{0}, {1}});
  for (int i = 0; i < 8; ++i) run.add({{0}, {1}, {.rank = 2, .forward_ms = 25}});
  const auto all = rank_excess(run.rows(), {});
  ASSERT_EQ(all.size(), 3u);
  EXPECT_TRUE(all[2].late);
  EXPECT_DOUBLE_EQ(all[2].excess_ms, 15);
  EXPECT_FLOAT_EQ(all[2].category_ms[index(Category::kForward)], 15);
  EXPECT_DOUBLE_EQ(all[0].excess_ms, -3.75);  // 8 steps even, 8 steps 7.5 below the median of 30 and 45
}

TEST(Straggler, LittleBesideTheStepOrItsNoiseIsNotLate) {
  Played little, noisy;
  for (int i = 0; i < 16; ++i) {
    little.add({{0}, {.rank = 1, .backward_ms = 20.5}});  // 0.5 of 32.5 ms
    noisy.add({{0}, {.rank = 1, .backward_ms = i % 2 ? 30.f : 12.f}});
  }
  EXPECT_FALSE(rank_excess(little.rows(), {})[1].late);
  EXPECT_TRUE(rank_excess(little.rows(), {.min_excess_share = 0.01})[1].late);
  EXPECT_FALSE(rank_excess(noisy.rows(), {})[1].late);  // later in half of the steps
}

TEST(Straggler, NeedsRowsAndSomebodyElse) {
  Played alone, few;
  for (int i = 0; i < 16; ++i) alone.add({{0}});
  for (int i = 0; i < 7; ++i) few.add({{0}, {.rank = 1, .backward_ms = 30}});
  EXPECT_TRUE(rank_excess(alone.rows(), {}).empty());
  EXPECT_TRUE(rank_excess(few.rows(), {}).empty());
}

}  // namespace
}  // namespace stepscope
