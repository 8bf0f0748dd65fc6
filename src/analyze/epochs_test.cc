#include "analyze/epochs.h"

#include <gtest/gtest.h>

namespace stepscope {
namespace {

StepRow row_of(uint32_t step, std::vector<int32_t> epochs, float forward_ms = 2) {
  StepRow row;
  row.step = step;
  for (int32_t epoch : epochs) {
    Cell cell;
    cell.rank = static_cast<int>(row.cells.size());
    cell.epoch = epoch;
    cell.samples = 4;
    cell.ms[index(Category::kForward)] = forward_ms;
    cell.wall_ms = forward_ms;
    row.cells.push_back(cell);
  }
  row.wall_ms = forward_ms;
  return row;
}

TEST(Epochs, SumsBetweenTheChanges) {
  Epochs epochs;
  for (uint32_t step = 0; step < 9; ++step)
    epochs.add(row_of(step, {static_cast<int32_t>(step / 3), static_cast<int32_t>(step / 3)}, 1.0f + step));
  const auto told = epochs.told();
  ASSERT_EQ(told.size(), 3u);
  EXPECT_EQ(told[1].epoch, 1);
  EXPECT_EQ(told[1].first_step, 3u);
  EXPECT_EQ(told[1].last_step, 5u);
  EXPECT_EQ(told[1].steps, 3u);
  EXPECT_DOUBLE_EQ(told[1].wall_ms, 4 + 5 + 6);
  EXPECT_DOUBLE_EQ(told[1].ms[index(Category::kForward)], 15);  // the mean of two equal ranks
  EXPECT_DOUBLE_EQ(told[1].samples, 3 * 2 * 4);
}

TEST(Epochs, ARankAheadOpensTheEpochAndARowWithoutNumberContinuesIt) {
  Epochs epochs;
  epochs.add(row_of(0, {-1, -1}));  // before any is known: in none
  epochs.add(row_of(1, {0, 0}));
  epochs.add(row_of(2, {0, 0}));
  epochs.add(row_of(3, {1, 0}));
  epochs.add(row_of(4, {-1, -1}));
  epochs.add(row_of(5, {1, 1}));
  const auto told = epochs.told();
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0].steps, 2u);
  EXPECT_EQ(told[1].first_step, 3u);
  EXPECT_EQ(told[1].steps, 3u);
}

TEST(Epochs, ValidationAndSavesEndTheEpochBefore) {
  Epochs epochs;
  for (uint32_t step = 0; step < 6; ++step) {
    StepRow row = row_of(step, {static_cast<int32_t>(step / 3), static_cast<int32_t>(step / 3)});
    for (Cell& cell : row.cells) {
      if (step % 3 == 1) cell.ms[index(Category::kValidation)] = 1;  // in mid-epoch
      if (step % 3 == 0)
        cell.ms[index(Category::kValidation)] = 30, cell.ms[index(Category::kCheckpoint)] = 20,
        cell.ms[index(Category::kEpochStart)] = 5;
    }
    row.wall_ms = step % 3 == 0 ? 57 : step % 3 == 1 ? 3 : 2;
    epochs.add(row);
  }
  const auto told = epochs.told();
  ASSERT_EQ(told.size(), 2u);
  EXPECT_DOUBLE_EQ(told[0].ms[index(Category::kValidation)],
                   30 + 1 + 30);  // before the first epoch there is none to give it to
  EXPECT_DOUBLE_EQ(told[0].ms[index(Category::kCheckpoint)], 20 + 20);
  EXPECT_DOUBLE_EQ(told[0].wall_ms, 57 + 3 + 2 + 50);
  EXPECT_DOUBLE_EQ(told[1].ms[index(Category::kValidation)], 1);
  EXPECT_DOUBLE_EQ(told[1].ms[index(Category::kEpochStart)], 5);
  EXPECT_DOUBLE_EQ(told[1].wall_ms, 7 + 3 + 2);
}

TEST(Epochs, SayNothingWhereTheyAreNoUnit) {
  Epochs one, each_step;
  for (uint32_t step = 0; step < 20; ++step)
    one.add(row_of(step, {0})), each_step.add(row_of(step, {static_cast<int32_t>(step)}));
  EXPECT_TRUE(one.told().empty());
  EXPECT_TRUE(each_step.told().empty());
  EXPECT_TRUE(Epochs().told().empty());
}

TEST(Epochs, KeepTheFirstAndTheNewest) {
  Epochs epochs;
  for (uint32_t step = 0; step < 3000; ++step) epochs.add(row_of(step, {static_cast<int32_t>(step / 3)}));
  const auto told = epochs.told();
  EXPECT_EQ(epochs.count(), 1000u);
  ASSERT_EQ(told.size(), Epochs::kMaxEpochs);
  EXPECT_EQ(told.front().epoch, 0);
  EXPECT_EQ(told.back().epoch, 999);
  EXPECT_EQ(told[1].epoch, 1000 - static_cast<int32_t>(Epochs::kMaxEpochs) + 1);
}

}  // namespace
}  // namespace stepscope
