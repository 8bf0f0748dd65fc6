// Made-up hangs (tests/support/flight_job.h), each in every form of dump: pickle and JSON, whole history and the
// unfinished only, with and without the status of groups.
#include "flight/verdict.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "flight_job.h"

namespace stepscope::flight {
namespace {

using examples::DumpForm;
using examples::FlightJob;

JobDumps joined(const FlightJob& job, const DumpForm& form, const std::set<int>& without = {}) {
  std::vector<RankDump> dumps;
  for (int rank = 0; rank < job.ranks(); ++rank) {
    if (without.contains(rank)) continue;
    auto dump = read_dump(job.bytes(rank, form), "dump_" + std::to_string(rank));
    if (!dump) throw std::runtime_error(dump.error().message);
    dumps.push_back(std::move(*dump));
  }
  auto out = join_dumps(std::move(dumps));
  if (!out) throw std::runtime_error(out.error().message);
  return std::move(*out);
}

std::vector<DumpForm> forms() {
  std::vector<DumpForm> out;
  for (const bool pickle : {true, false}) {
    for (const bool only_unfinished : {false, true}) {
      for (const bool status : {true, false}) {
        if (!only_unfinished || status) out.push_back({pickle, only_unfinished, status});
      }
    }
  }
  return out;
}

using Named = std::map<int, Kind>;

struct Expected {
  Outcome outcome = Outcome::kCulprits;
  Named culprits;
  std::vector<int> victims;
};

void expect(const FlightJob& job, const Expected& expected, const std::set<int>& without = {}) {
  for (const DumpForm& form : forms()) {
    const JobDumps dumps = joined(job, form, without);
    const Verdict verdict = judge(dumps);
    Named named;
    for (const Culprit& culprit : verdict.culprits) {
      named[culprit.rank] = culprit.kind;
      EXPECT_FALSE(culprit.reasons.empty());
    }
    SCOPED_TRACE(testing::Message() << "pickle " << form.pickle << " only_unfinished " << form.only_unfinished
                                    << " status " << form.status);
    EXPECT_EQ(name(verdict.outcome), name(expected.outcome));
    EXPECT_EQ(named, expected.culprits);
    EXPECT_EQ(verdict.victims, expected.victims);
    EXPECT_EQ(verdict.outcome == Outcome::kCulprits, verdict.reason.empty());
  }
}

// 8 ranks: 4 tensor-parallel pairs, 2 data-parallel groups of four; some steps behind them.
FlightJob two_by_four() {
  FlightJob job(8);
  for (int pair = 0; pair < 4; ++pair) job.group(std::to_string(1 + pair), "TP", {2 * pair, 2 * pair + 1});
  job.group("5", "DP", {0, 2, 4, 6});
  job.group("6", "DP", {1, 3, 5, 7});
  for (int step = 0; step < 3; ++step) {
    for (int pair = 0; pair < 4; ++pair)
      job.done(std::to_string(1 + pair), {.name = "_all_gather_base", .size = {4, 8}});
    job.done("5");
    job.done("6");
  }
  job.done("0", {.name = "broadcast"});
  return job;
}

TEST(Hang, AHealthyJobIsNotStuck) { expect(two_by_four(), {.outcome = Outcome::kNothingStuck}); }

TEST(Hang, TheRankThatIssuesNothingMoreIsStuckOnItsHost) {
  FlightJob job = two_by_four();
  for (int pair = 0; pair < 4; ++pair) job.issue_all(std::to_string(1 + pair), {}, {5});
  job.issue_all("5");
  job.issue_all("6", {}, {5});
  expect(job, {.culprits = {{5, Kind::kHostStuck}}, .victims = {0, 1, 2, 3, 4, 6, 7}});
}

TEST(Hang, TheRankWhosePeersFinishedIsStuckOnItsGpu) {
  FlightJob job(6);
  job.group("1", "DP", {0, 1, 2, 3, 4, 5});
  for (int i = 0; i < 5; ++i) job.done("1");
  for (const int rank : {0, 1, 3, 4, 5}) job.issue(rank, "1", {.state = "completed"});
  job.issue(2, "1");
  job.issue_all("1");
  expect(job, {.culprits = {{2, Kind::kGpuNeverFinishes}}, .victims = {0, 1, 3, 4, 5}});
}

TEST(Hang, TwoFaultsOfDifferentKindsAreBothNamed) {
  FlightJob job = two_by_four();
  job.issue(2, "5");  // its GPU: the others finish
  for (const int rank : {0, 4, 6}) job.issue(rank, "5", {.state = "completed"});
  job.issue_all("5");
  job.issue_all("6", {}, {7});  // its host
  expect(job, {.culprits = {{2, Kind::kGpuNeverFinishes}, {7, Kind::kHostStuck}}, .victims = {0, 1, 3, 4, 5, 6}});
}

TEST(Hang, AnotherOperationAtTheSamePlaceIsNamed) {
  FlightJob job(4);
  for (int i = 0; i < 3; ++i) job.done("0");
  job.issue_all("0", {}, {3});
  job.issue(3, "0", {.name = "broadcast"});
  expect(job, {.culprits = {{3, Kind::kMismatched}}, .victims = {0, 1, 2}});
}

TEST(Hang, ARankThatLeftTheLoopAndWaitsAtTheBarrierIsNamed) {
  FlightJob job(3);
  job.done("0", {.size = {1024}});
  job.issue_all("0", {.size = {1024}}, {1});
  job.issue(1, "0", {.size = {1}});  // torch's barrier is an all-reduce of one element
  expect(job, {.culprits = {{1, Kind::kMismatched}}, .victims = {0, 2}});
}

TEST(Hang, AnotherDataTypeIsNamedAndUnequalAllToAllIsNot) {
  FlightJob job(4);
  job.done("0");
  job.issue_all("0", {.dtype = "BFloat16"}, {0});
  job.issue(0, "0", {.dtype = "Float"});
  expect(job, {.culprits = {{0, Kind::kMismatched}}, .victims = {1, 2, 3}});
  FlightJob experts(4);
  experts.done("0");
  for (int rank = 0; rank < 4; ++rank) experts.issue(rank, "0", {.name = "all_to_all", .size = {100 + rank, 8}});
  expect(experts, {.outcome = Outcome::kAllArrived});
}

TEST(Hang, WithoutAMajorityBothSidesAreNamed) {
  FlightJob job(2);
  job.done("0");
  job.issue(0, "0", {.size = {8}});
  job.issue(1, "0", {.size = {9}});
  expect(job, {.culprits = {{0, Kind::kMismatched}, {1, Kind::kMismatched}}, .victims = {}});
}

TEST(Hang, RanksThatWaitForEachOtherAreNamedTogether) {
  FlightJob job(4);
  job.group("1", "A", {0, 1});
  job.group("2", "B", {0, 1});
  for (const char* group : {"0", "1", "2"}) job.done(group);
  job.issue(0, "1");
  job.issue(1, "2");
  job.issue(2, "0"), job.issue(3, "0");
  expect(job, {.culprits = {{0, Kind::kCrossedOrder}, {1, Kind::kCrossedOrder}}, .victims = {2, 3}});
}

TEST(Hang, ARankWithoutADumpThatAllWaitForIsNamed) {
  FlightJob job = two_by_four();
  for (int pair = 0; pair < 4; ++pair) job.issue_all(std::to_string(1 + pair), {}, {7});
  expect(job, {.culprits = {{7, Kind::kSilent}}, .victims = {6}}, {7});
}

TEST(Hang, ARankWithoutADumpIsNotNamedWhereAnotherExplainsTheWait) {
  FlightJob job = two_by_four();
  job.issue_all("0", {}, {2, 7});
  expect(job, {.culprits = {{2, Kind::kHostStuck}}, .victims = {0, 1, 3, 4, 5, 6}}, {7});
}

TEST(Hang, AnEmptyDumpIsASilentRecorder) {
  FlightJob job(3);
  job.issue_all("0", {}, {1});
  std::vector<RankDump> dumps;
  for (const int rank : {0, 2}) dumps.push_back(*read_dump(job.bytes(rank, {}), "dump_" + std::to_string(rank)));
  dumps.push_back(*read_dump(
      R"({"version":"2.10","entries":[],"pg_config":{"0":{"name":"0","desc":"","ranks":"[0, 1, 2]"}}})", "dump_1"));
  const auto joint = join_dumps(std::move(dumps));
  ASSERT_TRUE(joint);
  EXPECT_EQ(joint->silent, (std::vector{1}));
  const Verdict verdict = judge(*joint);
  ASSERT_EQ(verdict.culprits.size(), 1u);
  EXPECT_EQ(verdict.culprits[0].rank, 1);
  EXPECT_EQ(verdict.culprits[0].kind, Kind::kSilent);
}

TEST(Hang, WhereAllHaveArrivedNobodyIsNamed) {
  FlightJob job = two_by_four();
  job.issue_all("5"), job.issue_all("6");
  expect(job, {.outcome = Outcome::kAllArrived});
}

TEST(Hang, APipelineIsFollowedToTheStageThatSendsNothing) {
  FlightJob job(4);
  job.group("1", "PP", {3, 2, 1, 0});  // stage 0 is rank 3
  job.done("0");
  job.issue(2, "1", {.name = "recv 1<-0"});  // stage 1 waits for stage 0, …
  job.issue(1, "1", {.name = "recv 2<-1"});
  job.issue(0, "1", {.name = "recv 3<-2"});
  expect(job, {.culprits = {{3, Kind::kHostStuck}}, .victims = {0, 1, 2}});
}

TEST(Hang, AGpuThatNeverBeginsIsNamedWhereStartsAreTimed) {
  FlightJob job(4);
  job.timed = true;
  job.done("0");
  for (const int rank : {0, 1, 3}) job.issue(rank, "0", {.state = "started"});
  job.issue(2, "0");
  for (const DumpForm& form :
       {DumpForm{}, DumpForm{.pickle = false, .status = false}, DumpForm{.only_unfinished = true}}) {
    const JobDumps dumps = joined(job, form);
    const Verdict verdict = judge(dumps);
    ASSERT_EQ(verdict.culprits.size(), 1u);
    EXPECT_EQ(verdict.culprits[0].rank, 2);
    EXPECT_EQ(verdict.culprits[0].kind, Kind::kGpuNeverFinishes);
    EXPECT_EQ(verdict.victims, (std::vector{0, 1, 3}));
  }
}

TEST(Hang, ARootThatFinishedItsBroadcastProvesNothing) {
  FlightJob job(3);
  job.done("0");
  job.issue(0, "0", {.name = "broadcast", .state = "completed"});
  job.issue(1, "0", {.name = "broadcast"}), job.issue(2, "0", {.name = "broadcast"});
  expect(job, {.outcome = Outcome::kUndecided});
}

TEST(Hang, OfGloosOperationsRetiredIsDone) {
  FlightJob job(3);
  for (int i = 0; i < 3; ++i) job.done("0", {.backend = "gloo"});
  expect(job, {.outcome = Outcome::kNothingStuck});
  job.issue_all("0", {.backend = "gloo"}, {0});
  for (const DumpForm& form : {DumpForm{.pickle = false, .status = false}, DumpForm{.status = false}}) {
    const JobDumps dumps = joined(job, form);
    const Verdict verdict = judge(dumps);
    ASSERT_EQ(verdict.culprits.size(), 1u);
    EXPECT_EQ(verdict.culprits[0].rank, 0);
  }
}

TEST(Hang, OneDumpOfManyDecidesNothing) {
  FlightJob job = two_by_four();
  job.issue_all("0", {}, {3});
  expect(job, {.outcome = Outcome::kUndecided}, {1, 2, 3, 4, 5, 6, 7});
}

// Its recorder's ring has moved on, but its status says that it has issued the operation and not finished it.
TEST(Hang, AnOperationThatOnlyTheStatusKnowsHasArrived) {
  FlightJob job(3);
  job.done("0");
  job.issue_all("0");
  std::vector<RankDump> dumps;
  for (int rank = 0; rank < 3; ++rank) {
    auto json = job.json(rank, {});
    if (rank == 1) json["entries"] = nlohmann::json::array();
    dumps.push_back(*read_dump(json.dump(), "dump_" + std::to_string(rank)));
  }
  const auto joint = join_dumps(std::move(dumps));
  ASSERT_TRUE(joint);
  EXPECT_TRUE(judge(*joint).culprits.empty());
}

TEST(Hang, TheTableSaysWhoIsWhere) {
  FlightJob job = two_by_four();
  job.issue_all("6", {.size = {7}}, {5});
  const JobDumps dumps = joined(job, {});
  const Verdict verdict = judge(dumps);
  ASSERT_EQ(verdict.rows.size(), 1u);
  EXPECT_EQ(verdict.rows[0].description, "DP");
  EXPECT_EQ(verdict.rows[0].operation, "all_reduce 4 [[7]]");
  EXPECT_EQ(verdict.rows[0].waiting, (std::vector{1, 3, 7}));
  EXPECT_EQ(verdict.rows[0].missing, (std::vector{5}));
}

TEST(JobDumps, DumpsOfDifferentJobsAreRefused) {
  const FlightJob small(2), large(3);
  const auto read = [](const FlightJob& job, int rank, const char* file) {
    return *read_dump(job.bytes(rank, {}), file);
  };
  EXPECT_EQ(join_dumps({read(small, 0, "a_0"), read(large, 1, "b_1")}).error().message,
            "b_1: of another job than a_0: group 0 holds other ranks there");
  EXPECT_EQ(join_dumps({read(small, 0, "a_0"), read(small, 0, "b_0")}).error().message,
            "b_0: rank 0 again, after a_0; give the dumps of one job");
}

}  // namespace
}  // namespace stepscope::flight
