#include "replay/op_trace.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "naive_job.h"

namespace stepscope::replay {
namespace {

std::string message(const std::vector<TraceRow>& rows) {
  const auto trace = make_op_trace(rows, "t.csv");
  EXPECT_FALSE(trace);
  return trace ? "" : trace.error().message;
}

std::vector<TraceRow> job() {
  return examples::NaiveJob{.stages = 2, .dp_size = 2, .steps = 3, .microbatches = 2}.rows();
}

size_t find(const std::vector<TraceRow>& rows, OpType type, int step, int dp, int stage, int seq) {
  const auto found = std::ranges::find_if(rows, [&](const TraceRow& r) {
    return r.type == type && r.step == step && r.dp_rank == dp && r.stage == stage && r.seq_id == seq;
  });
  EXPECT_NE(found, rows.end());
  return static_cast<size_t>(found - rows.begin());
}

TEST(OpTrace, OrderOfRowsDoesNotMatter) {
  auto rows = job();
  const auto trace = make_op_trace(rows, "t.csv");
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->steps, (std::vector{10, 13, 16}));
  EXPECT_EQ(trace->lanes(), 6u);
  EXPECT_EQ(trace->ranks, (std::vector{0, 1, 2, 3}));
  EXPECT_EQ(trace->names.size() * trace->lanes(), rows.size());
  std::ranges::reverse(rows);
  const auto again = make_op_trace(rows, "t.csv");
  ASSERT_TRUE(again);
  for (size_t i = 0; i < trace->names.size(); ++i) {
    EXPECT_EQ(text(again->names[i]), text(trace->names[i]));
    EXPECT_TRUE(std::equal(trace->start_s.row(i), trace->start_s.row(i) + 6, again->start_s.row(i)));
  }
}

TEST(OpTrace, AMissingOperationIsNamed) {
  auto rows = job();
  rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(find(rows, OpType::kForwardSend, 13, 1, 0, 1)));
  EXPECT_EQ(message(rows),
            "t.csv: forward-send 1 of stage 0 is missing in step 13, data-parallel rank 1; every replica and step must "
            "hold the same operations");
  rows = job();  // in the lane that the others are compared with, too
  rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(find(rows, OpType::kOptimizer, 10, 0, 1, 0)));
  EXPECT_EQ(message(rows),
            "t.csv: optimizer 0 of stage 1 is missing in step 10, data-parallel rank 0; every replica and step must "
            "hold the same operations");
}

TEST(OpTrace, ADoubledOperationIsNamed) {
  auto rows = job();
  rows.push_back(rows[find(rows, OpType::kClip, 16, 0, 1, 0)]);
  EXPECT_EQ(message(rows),
            "t.csv: optimizer-clip-main-grad 0 of stage 1 is there twice in step 16, data-parallel rank 0");
  rows.back().seq_id = 1;
  EXPECT_EQ(message(rows),
            "t.csv: optimizer-clip-main-grad 1 of stage 1 is too many in step 16, data-parallel rank 0; every replica "
            "and step must hold the same operations");
}

TEST(OpTrace, AMissingReplicaOrStageIsNamed) {
  auto rows = job();
  std::erase_if(rows, [](const TraceRow& r) { return r.step == 13 && r.dp_rank == 1; });
  EXPECT_EQ(message(rows), "t.csv: step 13 holds no operation of data-parallel rank 1");
  rows = job();
  std::erase_if(rows, [](const TraceRow& r) { return r.step == 16 && r.dp_rank == 0; });
  EXPECT_EQ(message(rows), "t.csv: step 16 holds no operation of data-parallel rank 0");
  rows = job();
  std::erase_if(rows, [](const TraceRow& r) { return r.stage == 0; });
  EXPECT_EQ(message(rows), "t.csv: no operation of stage 0, but of stage 1");
  rows = job();
  std::erase_if(rows, [](const TraceRow& r) { return r.dp_rank == 0; });
  EXPECT_EQ(message(rows), "t.csv: step 10 holds no operation of data-parallel rank 0");
}

TEST(OpTrace, AWorkerHasOneRank) {
  auto rows = job();
  rows.back().rank = 9;
  EXPECT_EQ(message(rows), "t.csv: stage 1 of data-parallel rank 1 is both rank 3 and rank 9");
}

TEST(OpTrace, FarApartLabelsTakeNoMemory) {
  const TraceRow a{.type = OpType::kOptimizer},
      b{.type = OpType::kOptimizer, .step = 1 << 30, .dp_rank = 65535, .seq_id = 1 << 30};
  EXPECT_EQ(message({a, b}), "t.csv: step 0 holds no operation of data-parallel rank 1");
}

RC_GTEST_PROP(OpTrace, AnyOneRowLessOrTwiceIsRefused, ()) {
  auto rows = job();
  const auto at = static_cast<std::ptrdiff_t>(*rc::gen::inRange<size_t>(0, rows.size()));
  const TraceRow row = rows[static_cast<size_t>(at)];
  if (*rc::gen::arbitrary<bool>())
    rows.erase(rows.begin() + at);
  else
    rows.push_back(row);
  const auto trace = make_op_trace(rows, "t.csv");
  RC_ASSERT(!trace);
  RC_ASSERT(trace.error().message.find(text(OpName{row.type, row.stage, row.seq_id})) != std::string::npos);
  RC_ASSERT(trace.error().message.find("step " + std::to_string(row.step)) != std::string::npos);
}

}  // namespace
}  // namespace stepscope::replay
