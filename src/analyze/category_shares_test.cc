#include "analyze/category_shares.h"

#include <gtest/gtest.h>

namespace stepscope {
namespace {

Cell cell(int rank, float wall_ms, float forward_ms, float wait_ms) {
  Cell out;
  out.rank = rank;
  out.wall_ms = wall_ms;
  out.ms[index(Category::kForward)] = forward_ms;
  out.ms[index(Category::kStragglerWait)] = wait_ms;
  return out;
}

TEST(CategoryShares, ByHand) {
  StepRow a, b;
  a.cells = {cell(0, 10, 4, 6), cell(1, 10, 10, 0), cell(5, 10, 2, 3)};
  b.cells = {cell(0, 10, 8, 0)};
  Rows rows;
  rows.add(a, 1);
  rows.add(b, 3);
  const CategoryShares shares = category_shares(rows);
  // Forward: (4 + 3·8) / 40, 10 / 10, 2 / 10; waiting: 6 / 40, 0, 3 / 10.
  EXPECT_DOUBLE_EQ(shares[Category::kForward], 0.7);
  EXPECT_DOUBLE_EQ(shares.mean[index(Category::kForward)], (0.7 + 1.0 + 0.2) / 3);
  EXPECT_NEAR(shares[Category::kStragglerWait], 0.15, 1e-12);
  EXPECT_NEAR(shares.mean[index(Category::kStragglerWait)], 0.15, 1e-12);
  EXPECT_EQ(shares[Category::kBackward], 0);
}

TEST(CategoryShares, NothingIsNothing) {
  StepRow idle;
  idle.cells = {cell(0, 0, 0, 0)};
  Rows rows;
  EXPECT_EQ(category_shares(rows)[Category::kForward], 0);
  rows.add(idle, 1);
  EXPECT_EQ(category_shares(rows)[Category::kForward], 0);
}

}  // namespace
}  // namespace stepscope
