#include "serve/step_series.h"

#include <gtest/gtest.h>

#include <cmath>

#include "../../tests/support/scratch_folder.h"
#include "store/run_writer.h"

namespace stepscope {
namespace {

// Rank 2 of four needs 3 times the others' 10 ms in steps 40 to 59, and they wait for it; the newest steps stand in the
// snapshot alone.
struct Example {
  static constexpr int kRanks = 4;
  static constexpr uint64_t kStored = 100, kAll = 110;

  Example() {
    const std::string path = folder.file("run.db");
    RunWriter writer(path, {.run_id = "r", .start_ns = 0});
    auto snapshot = std::make_shared<Snapshot>();
    for (int r = 0; r < kRanks; ++r) snapshot->ranks.push_back({.rank = r});
    for (uint64_t step = 0; step < kAll; ++step) {
      const StepRow row = row_of_step(step);
      if (step < kStored) writer.add_row(row);
      StepPoint point{.step = step, .wall_ms = double{row.wall_ms}};
      for (const Cell& cell : row.cells) point.rank_ms.push_back(cell.own_ms());
      if (step >= 60) snapshot->recent.push_back(point);
    }
    writer.close();
    run = {.name = "r", .version = 1, .run_file = path, .snapshot = snapshot};
  }

  static StepRow row_of_step(uint64_t step) {
    StepRow row{.step = step};
    const bool late = step >= 40 && step < 60;
    for (int r = 0; r < kRanks; ++r) {
      Cell cell;
      cell.rank = r;
      cell.end_ns = static_cast<int64_t>(step + 1) * 40'000'000;
      const float own = late && r == 2 ? 30 : 10, wait = late && r != 2 ? 20 : 0;
      cell.ms[index(Category::kBackward)] = own * 0.9f;
      cell.ms[index(Category::kInputWait)] = own * 0.1f;
      cell.ms[index(Category::kStragglerWait)] = wait;
      cell.stall_ms = cell.wait_ms = wait;
      cell.wall_ms = cell.host_wall_ms = own + wait;
      cell.host_ms = cell.ms;
      row.wall_ms = std::max(row.wall_ms, cell.wall_ms);
      if (wait > 0) row.caused.push_back({2, r, wait});
      row.cells.push_back(cell);
    }
    return row;
  }

  testing::ScratchFolder folder;
  RunState run;
};

double ratio_of(const Heat& heat, size_t rank, size_t bin) {
  const uint8_t level = heat.levels[rank * heat.range.bins() + bin];
  return heat.scale.low * std::pow(heat.scale.high / heat.scale.low, (level - 1) / 254.0);
}

TEST(StepSeries, TheLateRankStandsOutInItsSteps) {
  const Example example;
  const auto heat = heat_of(example.run, {.bins = 4096});
  ASSERT_TRUE(heat) << heat.error().message;
  ASSERT_EQ(heat->range.bins(), Example::kAll);
  ASSERT_EQ(heat->ranks.size(), 4u);
  for (size_t step = 0; step < Example::kAll; ++step) {
    const bool late = step >= 40 && step < 60;
    EXPECT_NEAR(ratio_of(*heat, 2, step), late ? 3 : 1, 0.06) << step;
    EXPECT_NEAR(ratio_of(*heat, 1, step), 1, 0.03) << step;
    EXPECT_NEAR(heat->reference_ms[step], 10, 0.1) << step;
  }
}

TEST(StepSeries, ABinShowsTheLargestOfItsSteps) {
  const Example example;
  const auto heat = heat_of(example.run, {.bins = 11});
  ASSERT_TRUE(heat);
  ASSERT_EQ(heat->range.per_bin, 10);
  EXPECT_NEAR(ratio_of(*heat, 2, 3), 1, 0.03);
  EXPECT_NEAR(ratio_of(*heat, 2, 4), 3, 0.06);
  const auto bins = step_bins(example.run, {.bins = 11});
  ASSERT_TRUE(bins);
  EXPECT_NEAR(bins->longest_ms[4], 30, 0.1);
  EXPECT_NEAR(bins->longest_ms[6], 10, 0.1);
  EXPECT_NEAR(bins->longest_ms[10], 10, 0.1);  // of the snapshot alone
}

TEST(StepSeries, SharesOfTheStep) {
  const Example example;
  const auto wait = heat_of(example.run, {.from = 50, .to = 51, .bins = 2, .measure = Measure::kWait});
  ASSERT_TRUE(wait);
  EXPECT_FALSE(wait->scale.ratio);
  EXPECT_NEAR((wait->levels[0] - 1) / 254.0, 20.0 / 30, 0.01);
  EXPECT_EQ(wait->levels[2 * 2], 1);  // rank 2 waits for nobody
  const auto input = heat_of(example.run, {.from = 0, .to = 0, .bins = 2, .measure = Measure::kInput});
  ASSERT_TRUE(input);
  EXPECT_NEAR((input->levels[0] - 1) / 254.0, 0.1, 0.01);
  const auto memory = heat_of(example.run, {.bins = 8, .measure = Measure::kMemory});
  ASSERT_TRUE(memory);
  for (const uint8_t level : memory->levels) EXPECT_EQ(level, 0);  // not measured is not zero
}

TEST(StepSeries, OneStepSaysWhoWaitedForWhom) {
  const Example example;
  const auto row = row_of(example.run, 45);
  ASSERT_TRUE(row && *row);
  EXPECT_EQ((*row)->row.cells.size(), 4u);
  EXPECT_NEAR((*row)->row.caused_ms(2, 0), 20, 0.2);
  const auto none = row_of(example.run, 5000);
  ASSERT_TRUE(none);
  EXPECT_FALSE(*none);
}

TEST(StepSeries, RangesAreCutToWhatThereIs) {
  const StepRange all = range_of({.to = -1}, 10, 99, 30);
  EXPECT_EQ(all.from, 10);
  EXPECT_EQ(all.to, 99);
  EXPECT_EQ(all.bins(), 30u);
  EXPECT_EQ(range_of({.from = 200, .to = 300}, 10, 99, 30).bins(), 0u);
  EXPECT_EQ(range_of({}, 0, -1, 30).bins(), 0u);
  const Example example;
  const auto beyond = heat_of(example.run, {.from = 5000, .bins = 8});
  ASSERT_TRUE(beyond);
  EXPECT_TRUE(beyond->levels.empty());
}

TEST(StepSeries, ARunWithoutAFileHasItsNewestSteps) {
  Example example;
  example.run.run_file = "";
  const auto heat = heat_of(example.run, {.from = 70, .bins = 4096});
  ASSERT_TRUE(heat);
  EXPECT_EQ(heat->range.bins(), 40u);
  example.run.run_file = "/nowhere/run.db";
  EXPECT_FALSE(heat_of(example.run, {.bins = 8}));
}

}  // namespace
}  // namespace stepscope
