#include "analyze/late_sets.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>

namespace stepscope {
namespace {

// Steps of `own_ms(step, rank)` in backward.
template <class Own>
class Steps {
 public:
  Steps(int ranks, int steps, Own own_ms) {
    for (int k = 0; k < steps; ++k) {
      StepRow& row = made_.emplace_back();
      row.step = static_cast<uint64_t>(k);
      for (int r = 0; r < ranks; ++r) {
        Cell& cell = row.cells.emplace_back();
        cell.rank = r;
        cell.ms[index(Category::kBackward)] = static_cast<float>(own_ms(k, r));
        cell.ms[index(Category::kCommTransfer)] = static_cast<float>(100 - own_ms(k, r));  // is not compared
      }
      rows.add(row, 1);
    }
  }
  Rows rows;

 private:
  std::deque<StepRow> made_;
};

std::vector<std::vector<int>> sets(int ranks, int steps, auto own_ms) {
  return late_sets(Steps(ranks, steps, own_ms).rows, 32);
}

TEST(LateSets, RanksThatStandApartInEachHalf) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> noise(0, 1);
  const auto own = [&](int, int rank) { return (rank == 1 || rank == 2 || rank == 6 ? 30 : 20) + noise(random); };
  EXPECT_EQ(sets(8, 96, own), (std::vector<std::vector<int>>{{1, 2, 6}}));
}

TEST(LateSets, NoneWhereChanceDecides) {
  std::mt19937_64 random(2);
  std::lognormal_distribution<double> heavy(3, 0.5);
  size_t found = 0;
  for (int run = 0; run < 200; ++run) found += sets(8, 32, [&](int, int) { return heavy(random); }).size();
  EXPECT_LE(found, 2u);  // of 200 blocks
}

TEST(LateSets, OneRankIsNoSetNorAreMoreThanHalf) {
  EXPECT_TRUE(sets(8, 64, [](int, int rank) { return rank == 3 ? 30 : 20; }).empty());
  EXPECT_TRUE(sets(8, 64, [](int, int rank) { return rank == 3 ? 20 : 30; }).empty());
  EXPECT_TRUE(sets(3, 64, [](int, int rank) { return rank == 0 ? 20 : 30; }).empty());
}

TEST(LateSets, RanksInARowAreNotInTwoParts) {
  EXPECT_TRUE(sets(8, 64, [](int, int rank) { return 20 + rank; }).empty());
}

TEST(LateSets, TheOneOfMostBlocksFirst) {
  const auto own = [](int step, int rank) {
    if (step < 32) return rank < 2 ? 30 : 20;
    return rank == 4 || rank == 5 ? 30 : 20;
  };
  EXPECT_EQ(sets(8, 128, own), (std::vector<std::vector<int>>{{4, 5}, {0, 1}}));
}

}  // namespace
}  // namespace stepscope
