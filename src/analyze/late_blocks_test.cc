#include "analyze/late_blocks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "worked_rows.h"

namespace stepscope {
namespace {

using testing::Played;
using testing::Work;

constexpr size_t kBackward = index(Category::kBackward);
const BlockLimits kEight{.rows = 8, .least_share = 0.5, .straggler = {}};

// A block of eight steps per letter: which rank of two is late in it, by 10 ms in backward.
Played played(const std::string& blocks) {
  Played run;
  for (char late : blocks)
    for (int i = 0; i < 8; ++i)
      run.add({{.rank = 0, .backward_ms = late == '0' ? 30.f : 20.f},
               {.rank = 1, .backward_ms = late == '1' ? 30.f : 20.f}});
  return run;
}

size_t late(const std::string& blocks, int rank = 1) {
  const Played run = played(blocks);
  const auto found = late_blocks(run.rows(), kEight);
  return found.contains(rank) ? found.at(rank).size() : 0;
}

TEST(LateBlocks, OneAloneIsChance) {
  EXPECT_EQ(late("1...."), 0u);
  EXPECT_EQ(late("1.1.."), 0u);     // two of five, apart
  EXPECT_EQ(late(".11.."), 2u);     // neighbours
  EXPECT_EQ(late("1.1."), 2u);      // half of all
  EXPECT_EQ(late("11..1..."), 2u);  // the third has no neighbour
  EXPECT_EQ(late("0101", 0), 2u);
}

TEST(LateBlocks, TheLastBlockTakesTheRemainder) {
  Played run = played("11");
  for (int i = 0; i < 7; ++i) run.add({{0}, {.rank = 1, .backward_ms = 30}});
  const auto found = late_blocks(run.rows(), kEight);
  ASSERT_EQ(found.at(1).size(), 2u);
  EXPECT_EQ(found.at(1)[0].rows.size(), 8u);
  EXPECT_EQ(found.at(1)[1].rows.size(), 15u);
  EXPECT_EQ(rows_of(found.at(1)).size(), 23u);
}

TEST(LateBlocks, TogetherTheyAreWeighedByTheirSteps) {
  Played run;
  for (int i = 0; i < 8; ++i) run.add({{0}, {.rank = 1, .backward_ms = 30}});
  for (int i = 0; i < 12; ++i) run.add({{0}, {.rank = 1, .backward_ms = 40}});
  const auto found = late_blocks(run.rows(), kEight);
  const RankExcess e = overall(found.at(1));
  EXPECT_DOUBLE_EQ(e.excess_ms, (8 * 10 + 12 * 20) / 20.0);
  EXPECT_FLOAT_EQ(e.own_ms[kBackward], (8 * 30 + 12 * 40) / 20.0f);
  EXPECT_FLOAT_EQ(e.others_ms[kBackward], 20);
  EXPECT_DOUBLE_EQ(e.blame, 1);
}

// 16 of 32 steps lose 10 of 42 ms, the others are 32 ms long: 160 of 1184.
TEST(LateBlocks, DownToTheOthersSavesWhatTheyWaited) {
  const Played run = played("..11");
  const Rows rows = run.rows();
  const auto found = late_blocks(rows, kEight);
  const auto saved = saved_share(rows, down_to_the_others(rows, found.at(1), 1));
  ASSERT_TRUE(saved);
  EXPECT_NEAR(*saved, 160.0 / 1184, 1e-6);
}

// Late by 16 and by 24 ms in turns: by 20 as a rule. Taken down by that, the steps that were later still are late by 4;
// as the others, none is.
TEST(LateBlocks, AsTheOthersTakesEachStepsOwnLateness) {
  Played run;
  for (int i = 0; i < 16; ++i) run.add({{0}, {.rank = 1, .backward_ms = i % 2 ? 44.f : 36.f}});
  const Rows rows = run.rows();
  const auto found = late_blocks(rows, kEight);
  EXPECT_NEAR(*saved_share(rows, down_to_the_others(rows, found.at(1), 1)), (16 + 20) / 104.0, 1e-6);
  EXPECT_NEAR(*saved_share(rows, as_the_others(rows, found.at(1), 1)), (16 + 24) / 104.0, 1e-6);
}

TEST(LateBlocks, AnyFigureOfACellIsComparedWithTheOthers) {
  Played run = played("11");
  for (StepRow& row : run.table) row.cells[0].bytes = 100, row.cells[1].bytes = 250;
  const auto found = late_blocks(run.rows(), kEight);
  EXPECT_DOUBLE_EQ(factor_of(found.at(1), 1, &Cell::bytes), 2.5);
  EXPECT_TRUE(std::isnan(factor_of(found.at(1), 1, &Cell::tokens)));
}

TEST(LateBlocks, TheFirstBucketThatIsLateNamesTheRegion) {
  Played run = played("1");
  for (StepRow& row : run.table) {
    row.cells[0].bucket_ms = {5, 10, 15};
    row.cells[1].bucket_ms = {5, 18, 25};
  }
  const LateBlock block{run.rows(), {}};
  EXPECT_EQ(first_late_bucket(block, 1, 4), 1);
  EXPECT_EQ(first_late_bucket(block, 1, 9), 2);
  EXPECT_EQ(first_late_bucket(block, 1, 20), -1);
  for (StepRow& row : run.table)
    for (Cell& cell : row.cells) cell.bucket_ms.resize(1), cell.bucket_ms[0] += 10 * static_cast<float>(cell.rank);
  EXPECT_EQ(first_late_bucket(block, 1, 4), -1);  // one bucket holds every layer
}

TEST(LateBlocks, WorkIsToldByTheBestSizeThatIsKnown) {
  Played run = played("1");
  const std::vector<LateBlock> blocks = {{run.rows(), {}}};
  EXPECT_TRUE(std::isnan(work_factor(blocks, 1)));
  for (StepRow& row : run.table)
    for (Cell& cell : row.cells) cell.samples = cell.rank == 1 ? 24 : 16;
  EXPECT_DOUBLE_EQ(work_factor(blocks, 1), 1.5);
  for (StepRow& row : run.table)
    for (Cell& cell : row.cells) cell.tokens = 1000;  // as many in fewer samples
  EXPECT_DOUBLE_EQ(work_factor(blocks, 1), 1);
}

TEST(LateBlocks, LaunchingIsAPartOfWhatTheDeviceTakesLonger) {
  Played run = played("1");
  const std::vector<LateBlock> blocks = {{run.rows(), {}}};
  EXPECT_DOUBLE_EQ(launching_share(blocks, 1, Category::kBackward), 0);  // timed on the host
  for (StepRow& row : run.table)
    for (Cell& cell : row.cells) cell.gpu = true, cell.launching_ms[kBackward] = cell.rank == 1 ? 9 : 2;
  EXPECT_NEAR(launching_share(blocks, 1, Category::kBackward), 0.7, 1e-6);
}

}  // namespace
}  // namespace stepscope
