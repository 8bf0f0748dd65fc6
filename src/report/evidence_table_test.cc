#include "report/evidence_table.h"

#include <gtest/gtest.h>

#include <cmath>

#include "example_snapshot.h"
#include "report/rank_rows.h"

namespace stepscope {
namespace {

TEST(EvidenceTable, MedianWorstAndSkewOverRanks) {
  const EvidenceRow row = row_over_ranks("x", {{0, 10.0}, {1, 30.0}, {2, 12.0}, {3, std::nullopt}, {4, std::nan("")}});
  EXPECT_EQ(row.median, 12.0);
  EXPECT_EQ(row.worst, 30.0);
  EXPECT_EQ(row.worst_rank, 1);
  EXPECT_DOUBLE_EQ(*row.skew_pct, 150.0);
  EXPECT_EQ(row_over_ranks("x", {{0, 10.0}, {1, 20.0}}).median, 15.0);
  EXPECT_FALSE(row_over_ranks("x", {{0, 10.0}}).skew_pct);  // one rank has nothing to be skewed against
  EXPECT_FALSE(row_over_ranks("x", {}).median);
}

TEST(EvidenceTable, PhasesStandInLedgerOrder) {
  Snapshot s = examples::straggler();
  std::swap(s.phases[0], s.phases[3]);
  s.phases.push_back({.phase = "my_phase", .median_ms = 1});
  const auto phases = ordered_phases(s);
  EXPECT_EQ(phases[0].phase, "input_wait");
  EXPECT_EQ(phases[3].phase, "optimizer");
  EXPECT_EQ(phases[4].phase, "my_phase");
}

TEST(EvidenceTable, PhasesThatAreNilAreLeftOut) {
  Snapshot s = examples::straggler();
  const size_t rows = step_time_rows(s).size();
  s.phases.push_back({.phase = "host_pause", .median_ms = 0.0, .worst_ms = 0.004, .share = 0.0001});
  EXPECT_EQ(step_time_rows(s).size(), rows);
  s.phases.back().worst_ms = 3.0;  // rare but long on one rank
  EXPECT_EQ(step_time_rows(s).size(), rows + 1);
}

TEST(EvidenceTable, StallShareComesFromTheLedger) {
  const auto rows = step_time_rows(examples::straggler());
  EXPECT_EQ(rows.back().name, "stall");
  EXPECT_NEAR(*rows.back().share, (3.1 + 24.4) / 79.4, 0.001);
}

TEST(EvidenceTable, MemoryOnlyWhereMeasured) {
  EXPECT_TRUE(memory_rows(examples::straggler()).empty());
  const auto rows = memory_rows(examples::gpu_job());
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[2].name, "growth_bytes");
  EXPECT_EQ(*rows[2].median, 1024.0 * 1024 * 1024);
}

TEST(RankRows, InfoFindingsNameNoCulprit) {
  Snapshot s = examples::straggler(4);
  s.findings.push_back({.kind = FindingKind::kRankLost, .severity = Severity::kInfo, .ranks = {3}});
  EXPECT_EQ(culprit_ranks(s), (std::set<int>{1}));
}

TEST(RankRows, StateNamesThePhaseOnlyWhenItMatters) {
  EXPECT_EQ(rank_state_text({.state = RankState::kFinished, .last_phase = "forward"}), "finished");
  EXPECT_EQ(rank_state_text({.state = RankState::kHung, .last_phase = "input_wait"}), "hung in input wait");
}

}  // namespace
}  // namespace stepscope
