#include "report/summary_read.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "example_snapshot.h"
#include "report/summary_json.h"

namespace stepscope {
namespace {

std::string problem_with(const std::string& json) {
  const Result<Snapshot> read = read_summary(json, "x.json");
  return read ? "" : read.error().message;
}

TEST(SummaryRead, MissingOptionalFieldsReadAsNotMeasured) {
  const Result<Snapshot> read = read_summary(R"({"schema_version":"1.0","run":{"name":"a"}})");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->run.name, "a");
  EXPECT_EQ(read->primary, -1);
  EXPECT_FALSE(read->wall_ms.p50);
  EXPECT_EQ(read->sections.size(), 4u);
}

TEST(SummaryRead, ASavingWithoutARangeIsOfAnOlderFile) {
  const Result<Snapshot> read = read_summary(
      R"({"schema_version":"1.0","run":{"name":"a"},"findings":[{"kind":"GC_PAUSE","saves":{"share":0.25}},{"kind":"HANG","saves":null}]})");
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->findings.size(), 2u);
  ASSERT_TRUE(read->findings[0].saves);
  EXPECT_EQ(read->findings[0].saves->share, 0.25);
  EXPECT_FALSE(read->findings[0].saves->low || read->findings[0].saves->high);
  EXPECT_EQ(read->findings[0].saves->caveat, "");
  EXPECT_FALSE(read->findings[1].saves);
}

TEST(SummaryRead, UnknownFieldsOfANewerMinorVersionAreIgnored) {
  EXPECT_TRUE(read_summary(R"({"schema_version":"1.7","run":{"new":[1,{"x":2}]},"another":{}})"));
}

TEST(SummaryRead, SaysInOneLineWhatIsWrong) {
  EXPECT_EQ(problem_with(""), "x.json: not JSON, or cut off");
  EXPECT_EQ(problem_with("[1,2"), "x.json: not JSON, or cut off");
  EXPECT_EQ(problem_with("{}"), "x.json: not a stepscope summary (schema_version or run is missing)");
  EXPECT_EQ(problem_with(R"({"schema_version":"1.9","primary_diagnosis":{},"meta":{}})"),
            "x.json: not a stepscope summary (schema_version or run is missing)");
  EXPECT_EQ(problem_with(R"({"schema_version":"2.0","run":{}})"),
            "x.json: schema version 2.0 is not known to this stepscope, which reads 1.x");
  EXPECT_EQ(problem_with(R"({"schema_version":"1.0","run":{"world_size":"two"}})"),
            "x.json: run.world_size: expected a whole number in range");
  EXPECT_EQ(problem_with(R"({"schema_version":"1.0","run":{"world_size":1e99}})"),
            "x.json: run.world_size: expected a whole number in range");
  EXPECT_EQ(problem_with(R"({"schema_version":"1.0","run":{},"findings":[{"kind":"HANG"},{"ranks":[1.5]}]})"),
            "x.json: findings[1].ranks: expected a list of whole numbers");
  EXPECT_EQ(problem_with(R"({"schema_version":"1.0","run":{},"ledger":{"job":{"forward":{"ms":1e200}}}})"),
            "x.json: ledger.job.forward.ms: expected milliseconds in range");
  EXPECT_EQ(problem_with(R"({"schema_version":"1.0","run":{},"per_rank":{}})"), "x.json: per_rank: expected a list");
  EXPECT_EQ(problem_with("{\"schema_version\":\"1.0\",\"run\":{\"versions\":{\"a\\nb\":1}}}"),
            "x.json: run.versions.a?b: expected a string");
}

TEST(SummaryRead, DepthSizeAndNumberOfValuesAreBounded) {
  EXPECT_NE(problem_with(std::string(1000000, '[')).find("nested deeper than 32"), std::string::npos);
  EXPECT_NE(problem_with(std::string(kMaxSummaryBytes + 1, ' ')).find("larger than 64 MiB"), std::string::npos);
  std::string many = "[0";
  for (size_t i = 0; i < kMaxSummaryValues + 1; ++i) many += ",0";
  EXPECT_NE(problem_with(many + "]").find("more than 4000000 values"), std::string::npos);
  EXPECT_EQ(
      problem_with(R"({"schema_version":"1.0","run":{"name":"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\"{{{{{{{"}})"),
      "");  // brackets in a string do not nest
}

TEST(SummaryRead, APrimaryThatIsNotInTheListIsKept) {
  const Result<Snapshot> read = read_summary(
      R"({"schema_version":"1.0","run":{},"primary":{"id":"f9","kind":"HANG","severity":"crit"},"findings":[]})");
  ASSERT_TRUE(read);
  ASSERT_EQ(read->primary, 0);
  EXPECT_EQ(read->findings[0].kind, FindingKind::kHang);
}

// Whatever happens to a file on its way, reading ends with a value or with one line.
RC_GTEST_PROP(SummaryRead, DamagedFilesNeverCrash, (uint32_t position, uint8_t byte, uint16_t cut)) {
  std::string json = summary_json(examples::straggler());
  json[position % json.size()] = static_cast<char>(byte);
  if (cut % 4 == 0) json.resize(json.size() - cut % json.size());
  const Result<Snapshot> read = read_summary(json);
  if (read) {
    RC_ASSERT(!summary_json(*read).empty());
  } else {
    RC_ASSERT(!read.error().message.empty());
    RC_ASSERT(read.error().message.find('\n') == std::string::npos);
  }
}

TEST(SummaryRead, WordsOfANewerFileSurviveAReadAndAWrite) {
  const Result<Snapshot> read = read_summary(
      R"({"schema_version":"1.7","run":{},"findings":[{"kind":"QUANTUM_STALL","cause":"cosmic_rays","section":"weather","severity":"crit"}],)"
      R"("sections":{"step_time":{"diagnosis":"QUANTUM_STALL","severity":"crit"}},"per_rank":[{"rank":0,"state":"asleep"}]})");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->findings[0].kind, FindingKind::kOther);
  const std::string again = summary_json(*read);
  for (const char* word :
       {R"("kind": "QUANTUM_STALL")", R"("cause": "cosmic_rays")", R"("section": "weather")",
        R"("diagnosis": "QUANTUM_STALL")", R"("state": "asleep")", R"("doc": "findings/quantum-stall")"}) {
    EXPECT_NE(again.find(word), std::string::npos) << word << "\n" << again;
  }
}

}  // namespace
}  // namespace stepscope
