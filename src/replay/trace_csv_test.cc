#include "replay/trace_csv.h"

#include <gtest/gtest.h>

#include <string>

namespace stepscope::replay {
namespace {

constexpr const char* kHeader = "dp_rank,stage,rank,step,optype,start_ts,duration,seq_id,mc,mb_id,gmc\n";

std::string message(const std::string& text) {
  const auto rows = parse_trace_csv(text, "t.csv");
  EXPECT_FALSE(rows) << text;
  return rows ? "" : rows.error().message;
}

TEST(TraceCsv, ReadsARow) {
  const auto rows =
      parse_trace_csv(std::string(kHeader) + "3,1,7,23,backward-compute,0.8486717,1.5e-1,4,0,4,1\n", "t.csv");
  ASSERT_TRUE(rows);
  ASSERT_EQ(rows->size(), 1u);
  const TraceRow& row = rows->front();
  EXPECT_EQ(row.type, OpType::kBackwardCompute);
  EXPECT_EQ((std::array{row.dp_rank, row.stage, row.rank, row.step, row.seq_id, row.model_chunk, row.global_chunk}),
            (std::array{3, 1, 7, 23, 4, 0, 1}));
  EXPECT_DOUBLE_EQ(row.start_s, 0.8486717);
  EXPECT_DOUBLE_EQ(row.duration_s, 0.15);
}

TEST(TraceCsv, ColumnsStandInAnyOrderAmongOthersAndLinesEndAsTheyLike) {
  const auto rows = parse_trace_csv(
      "x,gmc,mc,seq_id,duration,start_ts,optype,step,rank,stage,dp_rank\r\n,-1,-1,0,2,1,gc,5,3,1,0\r\n", "t.csv");
  ASSERT_TRUE(rows);
  EXPECT_EQ(rows->front().rank, 3);
  EXPECT_EQ(rows->front().global_chunk, -1);
  EXPECT_TRUE(parse_trace_csv(std::string(kHeader) + "0,0,0,0,gc,0,0,0,-1,0,-1", "t.csv"));  // no newline at the end
}

TEST(TraceCsv, EveryFlawIsOneLineThatNamesIt) {
  const std::string header = kHeader;
  EXPECT_EQ(message(""), "t.csv: an empty file");
  EXPECT_EQ(message(header), "t.csv: no operation in it");
  EXPECT_EQ(message("PAR1\x15\x04"), "t.csv: a Parquet file; convert it to CSV first (pandas.read_parquet, to_csv)");
  EXPECT_EQ(message("a,b\n1,2\n"), "t.csv, line 1: no column dp_rank: no trace of operations");
  EXPECT_EQ(message("step," + header), "t.csv, line 1: two columns step");
  EXPECT_EQ(message(header + "0,0,0,0,gc,0,0,0,-1,0\n"), "t.csv, line 2: 10 fields, the header has 11");
  EXPECT_EQ(message(header + "0,0,0,0,gc,0,0,0,-1,0,-1\n\n0,0,0,0,gc,0,0,0,-1,0,-1\n"),
            "t.csv, line 3: 1 fields, the header has 11");
  EXPECT_EQ(message(header + "0,0,0,0,first-op,0,0,0,-1,0,-1\n"), "t.csv, line 2: unknown operation type 'first-op'");
  EXPECT_EQ(message(header + "0,0,0,0,gc,,0,0,-1,0,-1\n"), "t.csv, line 2: start_ts is missing");
  EXPECT_EQ(message(header + "0,0,0,0,gc,0,-0.1,0,-1,0,-1\n"), "t.csv, line 2: duration is '-0.1'");
  EXPECT_EQ(message(header + "0,0,0,0,gc,nan,0,0,-1,0,-1\n"), "t.csv, line 2: start_ts is 'nan'");
  EXPECT_EQ(message(header + "0,0,0,0,gc,0,inf,0,-1,0,-1\n"), "t.csv, line 2: duration is 'inf'");
  EXPECT_EQ(message(header + "-1,0,0,0,gc,0,0,0,-1,0,-1\n"), "t.csv, line 2: dp_rank is '-1'");
  EXPECT_EQ(message(header + "0,99999999,0,0,gc,0,0,0,-1,0,-1\n"), "t.csv, line 2: stage is '99999999'");
  EXPECT_EQ(message(header + "0,0,0,0x10,gc,0,0,0,-1,0,-1\n"), "t.csv, line 2: step is '0x10'");
  EXPECT_EQ(message(header + "\"0\",0,0,0,\x1b[2J,0,0,0,-1,0,-1\n"), "t.csv, line 2: unknown operation type '?[2J'");
}

}  // namespace
}  // namespace stepscope::replay
