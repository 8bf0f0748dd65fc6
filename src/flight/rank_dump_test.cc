#include "flight/rank_dump.h"

#include <gtest/gtest.h>

#include "flight_job.h"

namespace stepscope::flight {
namespace {

using nlohmann::json;

json small() {
  examples::FlightJob job(2);
  job.done("0");
  job.issue(1, "0", {.name = "_all_gather_base", .size = {2, 3}, .dtype = "BFloat16"});
  return job.json(1, {});
}

RankDump read(const json& dump, const std::string& file = "folder/_dump_1") {
  auto out = read_dump(dump.dump(), file);
  if (!out) throw std::runtime_error(out.error().message);
  return std::move(*out);
}

std::string message(const std::string& bytes, const std::string& file = "_dump_1") {
  const auto out = read_dump(bytes, file);
  EXPECT_FALSE(out);
  return out ? "" : out.error().message;
}

TEST(RankDump, PickleAndJsonSayTheSame) {
  const auto from_pickle = read_dump(examples::pickled(small()), "nccl_trace_rank_1");
  ASSERT_TRUE(from_pickle) << from_pickle.error().message;
  const RankDump from_json = read(small());
  for (const RankDump* dump : {&*from_pickle, &from_json}) {
    EXPECT_EQ(dump->rank, 1);
    ASSERT_EQ(dump->operations.size(), 2u);
    const Operation& op = dump->operations[1];
    EXPECT_EQ(op.name, "_all_gather_base");
    EXPECT_EQ(op.sequence, 2);
    EXPECT_EQ(op.elements, 6);
    EXPECT_EQ(op.sizes, "[[2,3]]");
    EXPECT_EQ(op.dtypes, "BFloat16");
    EXPECT_EQ(op.state, OpState::kScheduled);
    EXPECT_EQ(dump->operations[0].state, OpState::kCompleted);
    EXPECT_EQ(dump->groups.at("0").ranks, (std::vector{0, 1}));
    EXPECT_EQ(dump->status.at("0").enqueued, 2);
    EXPECT_EQ(dump->status.at("0").completed, 1);
  }
}

TEST(RankDump, RanksAreToldByTheNameOfTheFileOrByTheGroups) {
  EXPECT_EQ(read(small(), "rank1.json").rank, 1);
  EXPECT_EQ(read(small(), "a/b0/1").rank, 1);
  EXPECT_EQ(message(small().dump(), "a_7"),
            "a_7: rank 7 by its name, but its process groups are those of another rank");
  EXPECT_EQ(message(small().dump(), "dump"), "dump: whose rank it is cannot be told: name the file ..._<rank>");
  json alone = small();
  alone["pg_config"]["9"] = {{"name", "9"}, {"desc", ""}, {"ranks", {1}}};
  EXPECT_EQ(read(alone, "dump").rank, 1);
}

// A rank that waits for nothing has no operation that would tell which group a number of pg_status is.
TEST(RankDump, StatusOfGroupsWithoutOperationsIsFoundByTheirOrder) {
  json dump = small();
  dump["entries"] = json::array();
  EXPECT_EQ(read(dump).status.at("0").enqueued, 2);
  dump["pg_config"]["5"] = {{"name", "5"}, {"desc", ""}, {"ranks", {0, 1}}};  // one group more than there are numbers
  EXPECT_TRUE(read(dump).status.empty());
  dump["pg_status"]["77"] = {{"last_enqueued_collective", 40}};
  EXPECT_EQ(read(dump).status.at("5").enqueued, 40);
  json disagreeing = small();
  disagreeing["pg_config"]["5"] = {{"name", "5"}, {"desc", ""}, {"ranks", {0, 1}}};
  disagreeing["pg_status"]["0"] = {{"last_enqueued_collective", 40}};  // a smaller number than that of group 0
  EXPECT_FALSE(read(disagreeing).status.contains("5"));
}

TEST(RankDump, FramesGiveTheCallersLine) {
  json dump = small();
  dump["entries"][0]["frames"] = {
      {{"name", "all_reduce"}, {"filename", "/x/torch/distributed/distributed_c10d.py"}, {"line", 2806}},
      {{"name", "step"}, {"filename", "/home/u/train.py"}, {"line", 61}}};
  EXPECT_EQ(read(dump).operations[0].frame, "train.py:61 step");
}

TEST(RankDump, WhatIsNoDumpIsOneLine) {
  EXPECT_EQ(message(""), "_dump_1: an empty file");
  EXPECT_EQ(message("hello"), "_dump_1: neither a pickle nor JSON, or cut off");
  EXPECT_EQ(message("[1, 2]"), "_dump_1: no Flight Recorder dump");
  EXPECT_EQ(message("{}"), "_dump_1: no Flight Recorder dump");
  EXPECT_EQ(message(R"({"entries": 3})"), "_dump_1: entries is no list");
  EXPECT_EQ(message(R"({"entries": [3]})"), "_dump_1: an operation is no dict");
  EXPECT_EQ(message(R"({"entries": [], "pg_config": {"0": {"ranks": "[0, x]"}}})"),
            "_dump_1: process group 0 has no list of ranks");
  EXPECT_EQ(message(R"({"entries": [], "pg_config": {"0": {"ranks": [-1]}}})"),
            "_dump_1: process group 0 has no list of ranks");
  const std::string text = small().dump(), bytes = examples::pickled(small());
  EXPECT_EQ(message(text.substr(0, text.size() / 2)), "_dump_1: neither a pickle nor JSON, or cut off");
  EXPECT_NE(message(bytes.substr(0, bytes.size() / 2)), "");
  EXPECT_EQ(message("{\"entries\": " + std::string(100, '[')), "_dump_1: the JSON nests deeper than 32");
  EXPECT_EQ(message(std::string(kMaxDumpBytes + 1, ' ')), "_dump_1: larger than 256 MiB");
}

TEST(RankDump, OddFieldsAreNoDisaster) {
  json dump = small();
  dump["entries"][0] = {{"process_group", 3},
                        {"pg_id", "x"},
                        {"collective_seq_id", 1e30},
                        {"input_sizes", {{INT64_MAX, 3}}},
                        {"profiling_name", "\x1b[2J\n"},
                        {"time_created_ns", UINT64_MAX}};
  const Operation op = read(dump).operations[0];
  EXPECT_EQ(op.sequence, -1);
  EXPECT_EQ(op.elements, -1);
  EXPECT_EQ(op.name, " [2J ");
  EXPECT_FALSE(op.created_ns);
}

}  // namespace
}  // namespace stepscope::flight
