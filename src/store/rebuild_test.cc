// Every scenario judged live, written, read back and judged again: the same verdict.
#include "store/rebuild.h"

#include <gtest/gtest.h>

#include "random_rows.h"
#include "scenario_play.h"
#include "scratch_folder.h"
#include "store/run_writer.h"
#include "verdict.h"

namespace stepscope {
namespace {

using examples::findings_text;
using examples::verdict;
using testing::ScratchFolder;

class Rebuild : public ::testing::TestWithParam<std::string> {};

TEST_P(Rebuild, SaysWhatTheLiveEngineSaid) {
  const scenario::Scenario s = scenario::read(scenario::path_of(GetParam()));
  if (!s.tenants.empty()) GTEST_SKIP() << "who else lives on a device is not kept in the run file";
  if (!s.answers.empty()) GTEST_SKIP() << "what ranks answered when asked where they are is not kept in the run file";
  ScratchFolder folder;
  RunWriter writer(folder.file("run.db"), {.run_id = "r", .start_ns = 0});
  scenario::Play play(s);
  play.engine().set_row_sink([&](const StepRow& row) { writer.add_row(row); });
  const Snapshot live = play.run();
  writer.set_lives(play.lives());
  for (const auto& group : play.groups()) writer.set_group(group.id, group.description, group.ranks);
  writer.close();
  auto reader = RunReader::open(folder.file("run.db"));
  ASSERT_TRUE(reader) << reader.error().message;
  const auto again = rebuild_snapshot(*reader, {.engine = s.options});
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(verdict(live), verdict(*again)) << "live\n" << findings_text(live) << "rebuilt\n" << findings_text(*again);
  ASSERT_EQ(live.ranks.size(), again->ranks.size());
  EXPECT_EQ(live.steps, again->steps);
  for (size_t r = 0; r < live.ranks.size(); ++r) {
    EXPECT_EQ(live.ranks[r].steps, again->ranks[r].steps);
    EXPECT_EQ(live.ranks[r].state, again->ranks[r].state);
    EXPECT_NEAR(live.ranks[r].process_wall_ms, again->ranks[r].process_wall_ms,
                1e-3 * live.ranks[r].process_wall_ms + 0.1);
  }
  for (const Finding& was : live.findings) {
    for (const Finding& is : again->findings) {
      if (was.kind != is.kind || was.ranks != is.ranks || was.phase != is.phase) continue;
      EXPECT_NEAR(was.cost_share, is.cost_share, 0.02) << was.kind;
      if (was.saves && is.saves) {
        EXPECT_NEAR(was.saves->share, is.saves->share, 0.03) << was.kind;  // a replay of rounded times
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Scenarios, Rebuild, ::testing::ValuesIn(scenario::files()),
                         [](const auto& info) { return scenario::test_name(info.param); });

TEST(RebuildThinned, LedgersRestOnAllSteps) {
  ScratchFolder folder;
  RunWriterOptions options{.run_id = "r", .start_ns = 1'000'000'000'000, .full_steps = 512};
  examples::JobRows job({.ranks = 4});
  double wall_ms = 0;
  {
    RunWriter writer(folder.file("run.db"), options);
    RunInfo run;
    run.name = "long", run.status = "completed", run.exit_code = 0;
    writer.set_run(run);
    for (int i = 0; i < 2400; ++i) {
      const StepRow row = job.next();
      wall_ms += row.cells[2].wall_ms;
      writer.add_row(row);
    }
  }
  auto reader = RunReader::open(folder.file("run.db"));
  const auto snapshot = rebuild_snapshot(*reader);
  ASSERT_TRUE(snapshot) << snapshot.error().message;
  ASSERT_EQ(snapshot->ranks.size(), 4u);
  EXPECT_EQ(snapshot->ranks[2].steps, 2400u);
  EXPECT_NEAR(snapshot->ranks[2].steps_wall_ms, wall_ms, 1e-5 * wall_ms);
  EXPECT_EQ(snapshot->run.name, "long");
  EXPECT_EQ(snapshot->run.exit_code, 0);
  ASSERT_GE(snapshot->primary, 0);
  EXPECT_EQ(snapshot->findings[static_cast<size_t>(snapshot->primary)].kind, FindingKind::kComputeStraggler);
  EXPECT_EQ(snapshot->findings[static_cast<size_t>(snapshot->primary)].ranks, std::vector<int>{1});
}

TEST(RebuildAttempts, ARankLostInAnEarlierAttemptIsStillTold) {
  ScratchFolder folder;
  {
    RunWriter writer(folder.file("run.db"), {.run_id = "r", .start_ns = 1'000'000'000'000});
    for (int attempt = 0; attempt < 2; ++attempt) {
      writer.begin_attempt(attempt);
      examples::JobRows job({.ranks = 2, .straggler = -1});
      for (int i = 0; i < 60; ++i) writer.add_row(job.next());
      std::vector<RankLife> lives(2);
      for (int r = 0; r < 2; ++r) {
        RankLife& life = lives[static_cast<size_t>(r)];
        life.rank = r, life.world_size = 2, life.steps = 60, life.ended = true, life.attempt = attempt;
        life.process_start_ns = 1'000'000'000'000, life.first_step_ns = 1'000'100'000'000,
        life.last_step_ns = 1'003'000'000'000;
        life.end_ns = life.last_step_ns + (r == 1 ? 1'000'000 : 50'000'000);
        if (attempt == 0 && r == 1)
          life.exit_signal = 9;
        else if (attempt == 0)
          life.exit_signal = 15;
        else
          life.clean_exit = true, life.exit_code = 0;
      }
      writer.set_lives(lives);
    }
  }
  auto reader = RunReader::open(folder.file("run.db"));
  const auto snapshot = rebuild_snapshot(*reader);
  ASSERT_TRUE(snapshot) << snapshot.error().message;
  const auto lost = std::find_if(snapshot->findings.begin(), snapshot->findings.end(),
                                 [](const Finding& f) { return f.kind == FindingKind::kRankLost; });
  ASSERT_NE(lost, snapshot->findings.end()) << findings_text(*snapshot);
  EXPECT_EQ(lost->ranks, std::vector<int>{1});
  EXPECT_NE(lost->title.find("(attempt 1)"), std::string::npos) << lost->title;
  EXPECT_EQ(snapshot->ranks[1].state, RankState::kFinished);
}

TEST(RebuildEmpty, ARunThatNeverStepped) {
  ScratchFolder folder;
  { RunWriter writer(folder.file("run.db"), {.run_id = "r"}); }
  auto reader = RunReader::open(folder.file("run.db"));
  const auto snapshot = rebuild_snapshot(*reader);
  ASSERT_TRUE(snapshot) << snapshot.error().message;
  EXPECT_EQ(snapshot->steps, 0u);
  EXPECT_EQ(snapshot->run.status, "running");
}

}  // namespace
}  // namespace stepscope
