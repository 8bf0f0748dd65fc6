#include "report/summary_json.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "example_snapshot.h"
#include "random_snapshot.h"
#include "report/compare.h"
#include "report/summary_read.h"

namespace stepscope {
namespace {

using Json = nlohmann::json;

// The first lines that differ, or "".
std::string first_difference(const std::string& a, const std::string& b) {
  std::istringstream in_a(a), in_b(b);
  for (std::string x, y; std::getline(in_a, x);) {
    if (!std::getline(in_b, y) || x != y) return x + "\n" + y;
  }
  return a.size() == b.size() ? "" : "one is longer";
}

TEST(SummaryJson, HasTheShapeThatReadersRelyOn) {
  const Json j = Json::parse(summary_json(examples::straggler()));
  EXPECT_EQ(j["schema_version"], "1.0");
  EXPECT_EQ(j["run"]["world_size"], 2);
  EXPECT_EQ(j["primary"]["kind"], "COMPUTE_STRAGGLER");
  EXPECT_EQ(j["primary"]["ranks"], Json({1}));
  EXPECT_EQ(j["primary"]["phase"], "backward");
  EXPECT_EQ(j["primary"]["steps"]["detected"], 19);
  EXPECT_EQ(j["primary"]["saves"]["share"], 0.6146);
  EXPECT_EQ(j["primary"]["saves"]["low"], 0.5283);
  EXPECT_EQ(j["primary"]["saves"]["high"], 0.6251);
  EXPECT_EQ(j["primary"]["saves"]["caveat"], "other programs use cores of the host");
  EXPECT_EQ(j["primary"]["doc"], "findings/compute-straggler");
  EXPECT_EQ(j["sections"].size(), 4u);
  EXPECT_EQ(j["sections"]["step_time"]["diagnosis"], "COMPUTE_STRAGGLER");
  EXPECT_EQ(j["phases"]["backward"]["worst_rank"], 1);
  EXPECT_EQ(j["steps"]["wall_ms"]["p50"], 79.4);
  EXPECT_EQ(j["per_rank"][1]["phase_ms"]["backward"], 63.0);
  EXPECT_EQ(j["observer"]["lost"], 0);
}

TEST(SummaryJson, NotMeasuredIsNullAndMissingSectionsSayNoData) {
  const Json j = Json::parse(summary_json(examples::empty()));
  EXPECT_TRUE(j["primary"].is_null());
  EXPECT_TRUE(j["steps"]["wall_ms"]["p50"].is_null());
  EXPECT_TRUE(j["ledger"]["job"]["forward"]["share"].is_null());
  EXPECT_EQ(j["sections"]["step_memory"]["diagnosis"], "NO_DATA");
  EXPECT_TRUE(j["observer"]["overhead_us_per_step"].is_null());
}

TEST(SummaryJson, NanAndInfinityBecomeNull) {
  Snapshot s = examples::straggler();
  s.wall_ms.p99 = std::nan("");
  s.ranks[0].step_ms = INFINITY;
  s.recent[0].rank_ms[1] = std::nanf("");
  const std::string text = summary_json(s);
  EXPECT_EQ(text.find("nan"), std::string::npos);
  const Json j = Json::parse(text);
  EXPECT_TRUE(j["steps"]["wall_ms"]["p99"].is_null());
  EXPECT_TRUE(j["per_rank"][0]["step_ms"].is_null());
  EXPECT_TRUE(j["steps"]["recent"][0]["rank_ms"][1].is_null());
}

RC_GTEST_PROP(SummaryJson, CategoriesOfARankAddUpToItsWallTime, (uint64_t seed)) {
  const Json j = Json::parse(summary_json(examples::RandomSnapshot(seed).make()));
  for (const Json& rank : j["ledger"]["ranks"]) {
    RC_ASSERT(rank["categories"].size() == kCategoryCount);
    int64_t sum_ns = 0;
    for (const Json& ms : rank["categories"]) sum_ns += std::llround(ms.get<double>() * 1e6);
    const double wall_ms = rank["wall_ms"].get<double>();
    if (wall_ms < 4e9) RC_ASSERT(sum_ns == std::llround(wall_ms * 1e6));  // 46 days: what a double holds in ns
  }
}

RC_GTEST_PROP(SummaryJson, WriteReadWriteIsIdentical, (uint64_t seed)) {
  const std::string first = summary_json(examples::RandomSnapshot(seed).make());
  const Result<Snapshot> read = read_summary(first);
  if (!read) RC_FAIL(read.error().message);
  if (const std::string difference = first_difference(first, summary_json(*read)); !difference.empty())
    RC_FAIL(difference);
}

TEST(SummaryJson, ExamplesComeBackTheSame) {
  for (const Snapshot& s : {examples::straggler(), examples::straggler(8), examples::balanced(), examples::rank_lost(),
                            examples::gpu_job(), examples::empty()}) {
    const std::string first = summary_json(s);
    const Result<Snapshot> read = read_summary(first);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(first_difference(first, summary_json(*read)), "");
    EXPECT_EQ(read->primary, s.primary);
    EXPECT_EQ(read->ranks.size(), s.ranks.size());
    for (size_t r = 0; r < s.ranks.size(); ++r) EXPECT_EQ(read->ranks[r].ledger, s.ranks[r].ledger);
  }
}

TEST(SummaryJson, RecentStepsAreBoundedAndTheNewestStay) {
  Snapshot s = examples::straggler();
  s.recent.clear();
  for (uint32_t i = 0; i < 2000; ++i)
    s.recent.push_back({.step = i, .wall_ms = 10, .rank_ms = std::vector<float>(64, 10.0f)});
  const Json recent = Json::parse(summary_json(s))["steps"]["recent"];
  EXPECT_EQ(recent.size(), kMaxRecentCells / 65);
  EXPECT_EQ(recent.back()["step"], 1999);
}

TEST(SummaryJson, FindingStandsAloneOnOneLine) {
  const std::string line = finding_json(examples::straggler().findings[0]);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_EQ(Json::parse(line)["kind"], "COMPUTE_STRAGGLER");
}

// tests/report/test_schema.py validates these files against docs/schema/.
TEST(SummaryJson, DumpsExamplesForTheSchemaTest) {
  const char* folder = std::getenv("STEPSCOPE_DUMP_DIR");
  if (!folder) GTEST_SKIP() << "STEPSCOPE_DUMP_DIR is not set";
  std::vector<std::pair<std::string, Snapshot>> snapshots = {{"straggler", examples::straggler()},
                                                             {"balanced", examples::balanced()},
                                                             {"rank_lost", examples::rank_lost()},
                                                             {"gpu_job", examples::gpu_job()},
                                                             {"empty", examples::empty()}};
  for (uint64_t seed = 0; seed < 30; ++seed)
    snapshots.emplace_back("random_" + std::to_string(seed),
                           examples::RandomSnapshot(seed, examples::RandomSnapshot::Words::kKnown).make());
  for (const auto& [name, snapshot] : snapshots) {
    std::ofstream(std::filesystem::path(folder) / (name + ".summary.json")) << summary_json(snapshot);
  }
  std::ofstream(std::filesystem::path(folder) / "regression.compare.json")
      << compare_json(compare(examples::balanced(), examples::straggler()));
  EXPECT_TRUE(std::filesystem::exists(std::filesystem::path(folder) / "gpu_job.summary.json"));
}

}  // namespace
}  // namespace stepscope
