// Who is waited for, who is filled in later, and how many bytes the kept rows hold.
#include "align/step_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace stepscope {
namespace {

RankStep step_of(uint64_t number, size_t stalls = 0) {
  RankStep step;
  step.step = number;
  step.begin_ns = static_cast<int64_t>(number) * 10'000'000;
  step.end_ns = step.begin_ns + 10'000'000;
  step.own[index(Category::kForward)] = 10'000'000 - static_cast<int64_t>(stalls) * 1000;
  step.segments.resize(stalls + 1);
  step.segments[0] = step.own;
  for (size_t k = 0; k < stalls; ++k) step.stalls.push_back({7, k, 0, 1000, Category::kForward});
  step.collectives.resize(stalls, {.group = 7, .bytes = 1 << 20, .since_backward_ns = 1});
  return step;
}

void blame_the_first(StepRow& row) {
  for (const Cell& cell : row.cells)
    if (cell.rank != row.cells[0].rank) row.caused.push_back({row.cells[0].rank, cell.rank, 1});
}

size_t bytes_of_rows(const StepTable& table) {
  size_t sum = 0;
  for (const StepRow& row : table.sample()) sum += row.bytes();
  for (const StepRow& row : table.recent()) sum += row.bytes();
  return sum;
}

// The local ranks of one node, its first rank as given, in a job of `world` with `stalls` collectives a step.
StepTable played(int world, int first, int local, uint32_t steps, size_t stalls) {
  StepTable table(blame_the_first);
  table.expect_ranks(world);
  for (int r = first; r < first + local; ++r) table.await(r);
  for (uint32_t i = 0; i < steps; ++i) {
    for (int r = first; r < first + local; ++r) table.add(r, step_of(i, stalls));
    table.close_ready();
  }
  return table;
}

TEST(StepTableMemory, TheWorldCostsNothingAndTheBoundHolds) {
  size_t of_small_world = 0;
  for (const int world : {8, 512, 4096, 16384}) {
    const StepTable table = played(world, world - 8, 8, 6000, 130);
    EXPECT_EQ(table.closed(), 6000u);
    EXPECT_LE(table.kept_bytes(), StepTable::kKeptBytes) << world;
    EXPECT_EQ(table.kept_bytes(), bytes_of_rows(table)) << world;
    if (world == 8) of_small_world = table.kept_bytes();
    EXPECT_EQ(table.kept_bytes(), of_small_world) << world;
    for (const StepRow& row : table.recent()) {
      ASSERT_EQ(row.cells.size(), 8u);
      ASSERT_EQ(row.caused.size(), 7u);
    }
  }
}

TEST(StepTableMemory, OldRowsLoseTheirDetailAndTheNewestKeepIt) {
  const StepTable table = played(8, 0, 8, 3000, 130);
  ASSERT_FALSE(table.sample().empty());
  EXPECT_FALSE(table.sample().front().detailed);
  EXPECT_TRUE(table.sample().front().find(3)->segments.empty());
  EXPECT_NEAR(table.sample().front().find(3)->stall_ms, 0.13, 1e-5);
  const auto& recent = table.recent();
  for (size_t i = recent.size() - 64; i < recent.size(); ++i) EXPECT_EQ(recent[i].find(3)->stalls.size(), 130u);
  bool detailed = false;  // once there is detail, every newer row has it
  for (const StepRow& row : recent) {
    EXPECT_TRUE(row.detailed || !detailed);
    detailed = detailed || row.detailed;
  }
}

// Steps of 50 us fill 32 bits in two and a half days.
TEST(StepTable, StepNumbersGoOnBeyond32Bits) {
  constexpr uint64_t kFirst = (uint64_t{1} << 32) - 700;
  std::vector<uint64_t> closed;
  StepTable table([&](StepRow& row) { closed.push_back(row.step); });
  for (uint64_t i = 0; i < 2000; ++i)
    for (int r : {0, 1}) {
      table.add(r, step_of(kFirst + i));
      table.close_ready();
    }
  ASSERT_EQ(closed.size(), 2000u);
  for (uint64_t i = 0; i < closed.size(); ++i) ASSERT_EQ(closed[i], kFirst + i);
  EXPECT_EQ(table.closed(), kFirst + 2000);
  EXPECT_EQ(table.recent().back().step, kFirst + 1999);
  EXPECT_TRUE(std::is_sorted(table.sample().begin(), table.sample().end(),
                             [](const StepRow& a, const StepRow& b) { return a.step < b.step; }));
}

TEST(StepTable, NobodyWaitsForARankThatWasNeverSeen) {
  StepTable table([](StepRow&) {});
  table.expect_ranks(512);
  for (uint32_t i = 0; i < 5; ++i) {
    for (int r : {8, 9}) table.add(r, step_of(i));
    table.close_ready();
    EXPECT_EQ(table.closed(), i + 1);
  }
  const StepRow& row = table.recent().back();
  EXPECT_EQ(row.cells.size(), 2u);
  EXPECT_EQ(row.find(0), nullptr);
  EXPECT_EQ(row.find(511), nullptr);
  ASSERT_NE(row.find(9), nullptr);
  EXPECT_EQ(row.find(9)->rank, 9);
  EXPECT_EQ(table.seen(), (std::vector<int>{8, 9}));
  EXPECT_EQ(table.ranks(), 512);
  EXPECT_EQ(table.cells_seen(), 10u);
  EXPECT_EQ(table.cells_expected(), 5u * 512);
}

TEST(StepTable, WhoIsAnnouncedIsWaitedForUntilItIsGoneOrFarBehind) {
  StepTable table([](StepRow&) {});
  table.await(0), table.await(1), table.await(2);
  table.add(0, step_of(0)), table.add(1, step_of(0));
  table.close_ready();
  EXPECT_EQ(table.closed(), 0u);
  table.add(2, step_of(0));
  table.close_ready();
  EXPECT_EQ(table.closed(), 1u);

  table.add(0, step_of(1)), table.add(1, step_of(1));
  table.set_gone(2);
  table.close_ready();
  EXPECT_EQ(table.closed(), 2u);

  table.await(2);  // another process took its place
  for (uint32_t i = 2; i < 2 + StepTable::kMaxLead; ++i)
    table.add(0, step_of(i)), table.add(1, step_of(i)), table.close_ready();
  EXPECT_EQ(table.closed(), 2u);
  table.add(0, step_of(2 + StepTable::kMaxLead));
  table.close_ready();
  EXPECT_EQ(table.closed(), 3u);
}

TEST(StepTable, ALateJoinerIsFilledIntoTheRowsThatAreKept) {
  std::vector<uint32_t> late;
  StepTable table([](StepRow&) {},
                  [&](StepRow& row, Cell& cell) {
                    EXPECT_EQ(cell.rank, 1);
                    late.push_back(row.step);
                  });
  table.expect_ranks(3);
  for (uint32_t i = 0; i < 10; ++i) table.add(0, step_of(i)), table.add(2, step_of(i)), table.close_ready();
  EXPECT_EQ(table.closed(), 10u);
  for (uint32_t i = 0; i < 10; ++i) table.add(1, step_of(i, 3));
  table.add(1, step_of(4, 3));  // once more: nothing changes
  EXPECT_EQ(late.size(), 10u);
  for (const StepRow& row : table.recent()) {
    ASSERT_EQ(row.cells.size(), 3u);
    for (int r = 0; r < 3; ++r) EXPECT_EQ(row.cells[static_cast<size_t>(r)].rank, r);
  }
  EXPECT_EQ(table.cells_seen(), 30u);
  EXPECT_EQ(table.kept_bytes(), bytes_of_rows(table));
  // From now on it is waited for.
  table.add(0, step_of(10)), table.add(2, step_of(10)), table.close_ready();
  EXPECT_EQ(table.closed(), 10u);
  table.add(1, step_of(10)), table.close_ready();
  EXPECT_EQ(table.closed(), 11u);
}

TEST(StepTable, ANewAttemptWaitsForItsOwnRanksOnly) {
  StepTable table([](StepRow&) {});
  for (int r = 0; r < 4; ++r) table.add(r, step_of(0));
  table.close_ready();
  table.begin_attempt(2);
  table.add(3, step_of(1));  // ranks 0 to 2 are elsewhere now
  table.close_ready();
  EXPECT_EQ(table.closed(), 2u);
}

TEST(Blames, OnePairIsOneFigure) {
  StepRow row;
  row.caused = {{5, 2, 1}, {3, 9, 2}, {5, 2, 4}, {3, 1, 8}};
  settle(row.caused);
  ASSERT_EQ(row.caused.size(), 3u);
  EXPECT_FLOAT_EQ(row.caused_ms(5, 2), 5);
  EXPECT_FLOAT_EQ(row.caused_ms(3, 9), 2);
  EXPECT_FLOAT_EQ(row.caused_ms(2, 5), 0);
}

}  // namespace
}  // namespace stepscope
