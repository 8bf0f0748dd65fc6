#include "analyze/load_lead.h"

#include <gtest/gtest.h>

namespace stepscope {
namespace {

TEST(LoadLead, TheLargestQueueOfAnyRank) {
  std::vector<StepRow> table(2);
  table[0].cells.resize(2), table[1].cells.resize(2);
  table[0].cells[1].fetch_in_flight = 7;
  table[1].cells[0].fetch_in_flight = 4;
  Rows rows;
  EXPECT_EQ(batches_ahead(rows), 0u);
  for (const StepRow& row : table) rows.add(row, 1);
  EXPECT_EQ(batches_ahead(rows), 7u);
}

TEST(LoadLead, AQueueIsUsedUpAsFastAsTheLoaderIsTooSlow) {
  EXPECT_EQ(steps_hidden_by_queue(0, 0.5), 0u);      // no workers
  EXPECT_EQ(steps_hidden_by_queue(3, 0.5), 8u);      // four batches, half of one lost per step
  EXPECT_EQ(steps_hidden_by_queue(7, 0.3), 27u);     // 8 / 0.3 = 26.7
  EXPECT_EQ(steps_hidden_by_queue(7, 0.001), 160u);  // counted as 0.05
  EXPECT_EQ(steps_hidden_by_queue(7, 1.5), 8u);
}

}  // namespace
}  // namespace stepscope
