#include "diagnose/timed_collectives.h"

#include <gtest/gtest.h>

namespace stepscope {
namespace {

constexpr auto kAllReduce = static_cast<uint8_t>(CollectiveOp::kAllReduce);

StepRow row_of(std::vector<std::vector<CellOp>> ops) {
  StepRow row;
  for (auto& list : ops) {
    Cell cell;
    cell.rank = static_cast<int>(row.cells.size());
    cell.timed_ops = std::move(list);
    row.cells.push_back(std::move(cell));
  }
  return row;
}

TEST(BusBandwidth, FactorsOfEachOperation) {
  // 1 GB in 10 ms is 100 GB/s of payload.
  const uint64_t gb = 1'000'000'000;
  EXPECT_DOUBLE_EQ(bus_gb_per_s(CollectiveOp::kAllReduce, gb, 2, 10), 100);
  EXPECT_DOUBLE_EQ(bus_gb_per_s(CollectiveOp::kAllReduce, gb, 4, 10), 150);
  EXPECT_DOUBLE_EQ(bus_gb_per_s(CollectiveOp::kAllGather, gb, 4, 10), 300);  // bytes are one rank's part
  EXPECT_DOUBLE_EQ(bus_gb_per_s(CollectiveOp::kReduceScatter, gb, 4, 10), 300);
  EXPECT_DOUBLE_EQ(bus_gb_per_s(CollectiveOp::kBroadcast, gb, 4, 10), 100);
  EXPECT_DOUBLE_EQ(bus_gb_per_s(CollectiveOp::kAllReduce, gb, 1, 10), 0);
  EXPECT_DOUBLE_EQ(bus_gb_per_s(CollectiveOp::kBarrier, gb, 2, 10), 0);
  EXPECT_DOUBLE_EQ(bus_gb_per_s(CollectiveOp::kAllReduce, gb, 2, 0), 0);
}

TEST(TimedCollectives, TheShortestDurationIsTheTransferAndTheRestIsWaiting) {
  // Rank 1 arrives 6 ms late: rank 0's kernel spins for it.
  const StepRow row = row_of({{{7, 1, 10'000'000, kAllReduce, 8}}, {{7, 1, 10'000'000, kAllReduce, 2}}});
  Rows rows;
  rows.add(row, 1);
  rows.add(row, 1);
  const auto table = timed_collectives(rows, {{7, {"dp", {0, 1}}}}, false);
  ASSERT_EQ(table.size(), 1u);
  EXPECT_EQ(table[0].group, "dp");
  EXPECT_EQ(table[0].op, "all_reduce");
  EXPECT_DOUBLE_EQ(table[0].per_step, 1);
  EXPECT_DOUBLE_EQ(*table[0].transfer_ms, 2);
  EXPECT_DOUBLE_EQ(*table[0].wait_ms, 3);  // mean over the ranks: (6 + 0) / 2
  EXPECT_DOUBLE_EQ(*table[0].bus_gb_per_s, 5);
}

TEST(TimedCollectives, SmallOperationsStandApartAndHaveNoBandwidth) {
  const StepRow row = row_of({{{7, 1, 10'000'000, kAllReduce, 2}, {7, 2, 64, kAllReduce, 0.02f}},
                              {{7, 1, 10'000'000, kAllReduce, 2}, {7, 2, 64, kAllReduce, 0.02f}}});
  Rows rows;
  rows.add(row, 1);
  const auto table = timed_collectives(rows, {}, false);
  ASSERT_EQ(table.size(), 2u);
  EXPECT_EQ(table[0].op, "all_reduce");
  EXPECT_EQ(table[1].op, "all_reduce < 1 MiB");
  EXPECT_FALSE(table[1].bus_gb_per_s);
  EXPECT_EQ(table[0].ranks, (std::vector<int>{0, 1}));
}

TEST(TimedCollectives, BandwidthAndTransferNeedEveryMemberOfTheGroup) {
  const StepRow row = row_of({{{7, 1, 10'000'000, kAllReduce, 8}, {9, 1, 10'000'000, kAllReduce, 2}},
                              {{7, 1, 10'000'000, kAllReduce, 8}, {9, 1, 10'000'000, kAllReduce, 2}}});
  Rows rows;
  rows.add(row, 1);
  const auto table = timed_collectives(rows, {{7, {"dp", {0, 1, 2, 3}}}, {9, {"tp", {0, 1}}}}, true);
  ASSERT_EQ(table.size(), 2u);
  for (const CollectiveStat& c : table) {
    EXPECT_EQ(c.transfer_ms.has_value(), c.group == "tp");
    EXPECT_EQ(c.bus_gb_per_s.has_value(), c.group == "tp");
  }
}

TEST(TimedCollectives, MessagesToSeveralPeersAreApart) {
  constexpr auto kSend = static_cast<uint8_t>(CollectiveOp::kSend);
  const StepRow row = row_of({{{7, 0, 2'000'000, kSend, 2, 1}, {7, 0, 2'000'000, kSend, 4, 2}}, {}});
  Rows rows;
  rows.add(row, 1);
  const auto table = timed_collectives(rows, {}, false);
  ASSERT_EQ(table.size(), 1u);
  EXPECT_DOUBLE_EQ(table[0].per_step, 2);
  EXPECT_DOUBLE_EQ(*table[0].transfer_ms, 6);
}

TEST(TimedCollectives, NothingTimedIsAnEmptyTable) {
  const StepRow row = row_of({{}, {}});
  Rows rows;
  rows.add(row, 1);
  EXPECT_TRUE(timed_collectives(rows, {}, false).empty());
}

}  // namespace
}  // namespace stepscope
