// A run written in halves, one file per node, and merged: the verdict is that of the whole run.
#include "store/merge.h"

#include <gtest/gtest.h>

#include <sqlite3.h>

#include "random_rows.h"
#include "scratch_folder.h"
#include "store/rebuild.h"
#include "store/run_writer.h"
#include "store/sql.h"
#include "verdict.h"

namespace stepscope {
namespace {

using examples::JobRows;
using examples::verdict;
using testing::ScratchFolder;

constexpr int64_t kStart = 1'000'000'000'000;

// Those rows of a job that one node would have seen, as its agent would have attributed them.
StepRow seen_by(const StepRow& whole, const std::vector<int>& ranks, int world, int64_t clock_ns) {
  StepRow row;
  row.step = whole.step, row.wall_ms = whole.wall_ms, row.tags = whole.tags;
  for (const Cell& cell : whole.cells) {
    if (std::find(ranks.begin(), ranks.end(), cell.rank) == ranks.end()) continue;
    Cell own = cell;
    own.end_ns += clock_ns;
    for (Category c : {Category::kCommTransfer, Category::kStragglerWait, Category::kUnresolved}) own.ms[index(c)] = 0;
    own.wait_ms = own.caused_ms = own.caused_unsure_ms = 0;
    for (CellStall& stall : own.stalls) stall.transfer_ms = stall.unresolved_ms = 0;
    row.cells.push_back(own);
  }
  attribute(row, {}, world);
  return row;
}

RankLife life_of(int rank, int world, uint64_t steps, int64_t clock_ns, int attempt = 0) {
  RankLife life;
  life.rank = rank, life.world_size = world, life.steps = steps, life.attempt = attempt;
  life.node_rank = rank, life.hostname = "host" + std::to_string(rank);
  life.process_start_ns = kStart + clock_ns;
  life.first_step_ns = kStart + 1'000'000 + clock_ns;
  life.last_step_ns = life.end_ns = kStart + 60'000'000'000 + clock_ns;
  life.ended = life.clean_exit = true, life.exit_code = 0;
  return life;
}

struct Job {
  int ranks = 2, straggler = 1, steps = 200, world = 2;
  uint64_t seed = 1;
};

// One run file of the job with these ranks; all of them: the unsplit run.
void write_file(const std::string& path, const Job& job, const std::vector<int>& ranks, int64_t clock_ns = 0,
                std::function<bool(uint64_t)> keep = nullptr) {
  RunWriter writer(path, {.run_id = path, .version = "0.1.0", .start_ns = kStart + clock_ns});
  RunInfo run;
  run.name = "job", run.status = "completed", run.exit_code = 0, run.duration_s = 60, run.nodes = 1;
  run.world_size = job.world, run.command = {"torchrun", "train.py"}, run.versions["torch"] = "2.9";
  writer.set_run(run);
  JobRows rows({.ranks = job.ranks, .straggler = job.straggler, .seed = job.seed});
  for (int i = 0; i < job.steps; ++i) {
    const StepRow row = rows.next();
    if (!keep || keep(row.step)) writer.add_row(seen_by(row, ranks, job.world, clock_ns));
  }
  std::vector<RankLife> lives;
  for (int rank : ranks) lives.push_back(life_of(rank, job.world, static_cast<uint64_t>(job.steps), clock_ns));
  writer.set_lives(lives);
  std::vector<int> all;
  for (int r = 0; r < job.world; ++r) all.push_back(r);
  writer.set_group(77, "default_pg", all);
  writer.close();
  EXPECT_FALSE(writer.take_error());
}

MergeSource source(const std::string& path) {
  auto reader = RunReader::open(path);
  EXPECT_TRUE(reader) << (reader ? "" : reader.error().message);
  return {path.substr(path.rfind('/') + 1), std::move(*reader)};
}

Result<RunMerge> merge_of(const std::vector<std::string>& paths) {
  std::vector<MergeSource> sources;
  for (const std::string& path : paths) sources.push_back(source(path));
  return RunMerge::of(std::move(sources));
}

Snapshot judged(const std::vector<std::string>& paths) {
  auto merge = merge_of(paths);
  EXPECT_TRUE(merge) << (merge ? "" : merge.error().message);
  auto snapshot = rebuild_merged(*merge);
  EXPECT_TRUE(snapshot) << (snapshot ? "" : snapshot.error().message);
  return snapshot ? *snapshot : Snapshot{};
}

Snapshot judged_alone(const std::string& path) {
  auto reader = RunReader::open(path);
  auto snapshot = rebuild_snapshot(*reader);
  EXPECT_TRUE(snapshot);
  return *snapshot;
}

std::string refusal(const std::vector<std::string>& paths) {
  const auto merge = merge_of(paths);
  EXPECT_FALSE(merge);
  return merge ? "" : merge.error().message;
}

const Finding* named(const Snapshot& snapshot, FindingKind kind) {
  const auto found = std::find_if(snapshot.findings.begin(), snapshot.findings.end(),
                                  [&](const Finding& f) { return f.kind == kind; });
  return found == snapshot.findings.end() ? nullptr : &*found;
}

bool notes(const Snapshot& snapshot, const std::string& part) {
  return std::any_of(snapshot.observer.notes.begin(), snapshot.observer.notes.end(),
                     [&](const std::string& note) { return note.find(part) != std::string::npos; });
}

class Merge : public ::testing::Test {
 protected:
  std::string file(const std::string& name) { return folder_.file(name); }
  ScratchFolder folder_;
};

TEST_F(Merge, TwoNodesAreJudgedAsTheWholeRunIs) {
  const Job job;
  write_file(file("whole.db"), job, {0, 1});
  write_file(file("a.db"), job, {0});
  write_file(file("b.db"), job, {1}, 7'654'321'000'000);
  const Snapshot whole = judged_alone(file("whole.db")), merged = judged({file("a.db"), file("b.db")});
  EXPECT_EQ(verdict(whole), verdict(merged));
  const Finding* straggler = named(merged, FindingKind::kComputeStraggler);
  ASSERT_NE(straggler, nullptr);
  EXPECT_EQ(straggler->ranks, std::vector<int>{1});
  EXPECT_EQ(straggler->phase, named(whole, FindingKind::kComputeStraggler)->phase);
  EXPECT_NEAR(straggler->cost_share, named(whole, FindingKind::kComputeStraggler)->cost_share, 0.02);
  EXPECT_EQ(merged.steps, 200u);
  EXPECT_EQ(merged.run.ranks_seen, 2);
  EXPECT_EQ(merged.run.nodes, 2);
  ASSERT_EQ(merged.ranks.size(), 2u);
  EXPECT_EQ(merged.job_ledger[index(Category::kUnresolved)], 0);
  for (const char* half : {"a.db", "b.db"}) {
    EXPECT_EQ(named(judged_alone(file(half)), FindingKind::kComputeStraggler), nullptr) << half;
    EXPECT_NE(named(judged_alone(file(half)), FindingKind::kIncompleteData), nullptr) << half;
  }
}

TEST_F(Merge, TheOrderOfTheFilesDoesNotMatter) {
  const Job job{.ranks = 4, .straggler = 2, .world = 4};
  write_file(file("whole.db"), job, {0, 1, 2, 3});
  write_file(file("a.db"), job, {0, 3});
  write_file(file("b.db"), job, {1, 2}, -5'000'000'000);
  const auto whole = verdict(judged_alone(file("whole.db")));
  EXPECT_EQ(whole, verdict(judged({file("a.db"), file("b.db")})));
  EXPECT_EQ(whole, verdict(judged({file("b.db"), file("a.db")})));
}

TEST_F(Merge, ClocksAreLaidTogetherByTheEndsOfCommonSteps) {
  const Job job;
  const int64_t ahead_ns = 90'000'000'000'000;
  write_file(file("a.db"), job, {0});
  write_file(file("b.db"), job, {1}, ahead_ns);
  auto merge = merge_of({file("a.db"), file("b.db")});
  ASSERT_TRUE(merge) << merge.error().message;
  ASSERT_EQ(merge->lives().size(), 2u);
  EXPECT_NEAR(static_cast<double>(merge->lives()[1].process_start_ns), static_cast<double>(kStart), 5e6);
  EXPECT_NEAR(merge->run().duration_s, 60, 0.01);
  const Snapshot merged = judged({file("a.db"), file("b.db")});
  EXPECT_TRUE(notes(merged, "clock of b.db set by the ends of 200 steps that it has in common with a.db"));
}

TEST_F(Merge, RanksOfANodeThatIsMissingAreUnseen) {
  const Job job{.ranks = 3, .straggler = 2, .world = 3};
  write_file(file("a.db"), job, {0});
  write_file(file("b.db"), job, {1});
  const Snapshot merged = judged({file("a.db"), file("b.db")});
  EXPECT_EQ(merged.run.world_size, 3);
  EXPECT_EQ(merged.run.ranks_seen, 2);
  EXPECT_GT(merged.job_ledger[index(Category::kUnresolved)], 0);
  EXPECT_EQ(named(merged, FindingKind::kComputeStraggler), nullptr);
  ASSERT_NE(named(merged, FindingKind::kIncompleteData), nullptr);
}

TEST_F(Merge, AFileThatEndsEarlyIsJoinedAsFarAsItGoes) {
  const Job job;
  write_file(file("a.db"), job, {0});
  write_file(file("b.db"), job, {1}, 0, [](uint64_t step) { return step < 120; });
  auto merge = merge_of({file("a.db"), file("b.db")});
  ASSERT_TRUE(merge) << merge.error().message;
  size_t both = 0, one = 0;
  ASSERT_TRUE(merge->for_each_row([&](const MergedRow& row) {
    ++(row.stored.row.cells.size() == 2 ? both : one);
    for (const Cell& cell : row.stored.row.cells)
      for (const CellStall& stall : cell.stalls)
        EXPECT_EQ(stall.group == kSeenGroup, row.stored.row.cells.size() == 2) << row.number;
    return true;
  }));
  EXPECT_EQ(both, 120u);
  EXPECT_EQ(one, 80u);
}

TEST_F(Merge, StepsThatOneFileThinnedOutCountWhereBothKeptThem) {
  const Job job{.steps = 2400};
  write_file(file("a.db"), job, {0});
  {
    RunWriter writer(file("b.db"), {.run_id = "b", .start_ns = kStart, .full_steps = 512});
    JobRows rows({.ranks = 2});
    for (int i = 0; i < job.steps; ++i) writer.add_row(seen_by(rows.next(), {1}, 2, 0));
    writer.set_lives({life_of(1, 2, 2400, 0)});
  }
  auto merge = merge_of({file("a.db"), file("b.db")});
  ASSERT_TRUE(merge) << merge.error().message;
  EXPECT_TRUE(merge->thinned());
  size_t rows = 0;
  ASSERT_TRUE(merge->for_each_row([&](const MergedRow& row) {
    EXPECT_EQ(row.stored.row.cells.size(), 2u) << row.number;
    return ++rows, true;
  }));
  EXPECT_LT(rows, 2400u);
  const Snapshot merged = judged({file("a.db"), file("b.db")});
  ASSERT_EQ(merged.ranks.size(), 2u);
  EXPECT_EQ(merged.ranks[0].steps, 2400u);
  EXPECT_EQ(merged.ranks[1].steps, 2400u);
  ASSERT_NE(named(merged, FindingKind::kComputeStraggler), nullptr);
}

// Node b lost a step more than node a before the restart: the second attempt counts from another step.
TEST_F(Merge, AttemptsMeetByTheirOwnSteps) {
  for (int rank = 0; rank < 2; ++rank) {
    RunWriter writer(file(rank ? "b.db" : "a.db"), {.run_id = "r", .start_ns = kStart});
    std::vector<RankLife> lives;
    uint64_t before = 0;
    for (int attempt = 0; attempt < 2; ++attempt) {
      writer.begin_attempt(attempt);
      JobRows rows({.ranks = 2, .straggler = -1});
      const int steps = attempt == 0 ? 50 - rank : 60;
      for (int i = 0; i < steps; ++i) {
        StepRow row = seen_by(rows.next(), {rank}, 2, 0);
        row.step += before;
        writer.add_row(row);
      }
      before += static_cast<uint64_t>(steps);
      lives.push_back(life_of(rank, 2, static_cast<uint64_t>(steps), 0, attempt));
      writer.set_lives({lives.back()});
    }
  }
  auto merge = merge_of({file("a.db"), file("b.db")});
  ASSERT_TRUE(merge) << merge.error().message;
  size_t second = 0;
  uint64_t newest = 0;
  ASSERT_TRUE(merge->for_each_row([&](const MergedRow& row) {
    if (row.stored.attempt == 1) {
      EXPECT_EQ(row.number, second);
      EXPECT_EQ(row.stored.row.cells.size(), 2u);
      ++second;
    }
    EXPECT_TRUE(newest == 0 || row.stored.row.step == newest + 1);
    newest = row.stored.row.step;
    return true;
  }));
  EXPECT_EQ(second, 60u);
  EXPECT_EQ(judged({file("a.db"), file("b.db")}).steps, 110u);
}

TEST_F(Merge, GroupsAcrossNodesMeetAmongTheirOwn) {
  // Node 0 has ranks 0, 1; node 1 has 2, 3; each rank averages with the one of the same place on the other node.
  for (int node = 0; node < 2; ++node) {
    RunWriter writer(file(node ? "b.db" : "a.db"), {.run_id = "r", .start_ns = kStart});
    writer.set_group(1, "dp0", {0, 2});
    writer.set_group(2, "dp1", {1, 3});
    writer.set_group(3, "default_pg", {0, 1, 2, 3});
    for (int i = 0; i < 100; ++i) {
      StepRow row;
      row.step = static_cast<uint64_t>(i);
      for (int r = 2 * node; r < 2 * node + 2; ++r) {
        RankStep step;
        step.end_ns = kStart + (int64_t{i} + 1) * 50'000'000;
        const int64_t own_ns = r == 2 ? 40'000'000 : 10'000'000;
        step.own[index(Category::kBackward)] = own_ns;
        const int64_t stall_ns = r == 0 || r == 2 ? 42'000'000 - own_ns : 2'000'000;
        step.begin_ns = step.end_ns - own_ns - stall_ns;
        step.stalls = {{static_cast<uint64_t>(r % 2 + 1), 0, step.begin_ns + own_ns, stall_ns, Category::kBackward}};
        row.cells.push_back(to_cell(r, step));
      }
      Groups groups;
      groups[1].ranks = {0, 2}, groups[2].ranks = {1, 3};
      attribute(row, groups, 4);
      writer.add_row(row);
    }
    writer.set_lives({life_of(2 * node, 4, 100, 0), life_of(2 * node + 1, 4, 100, 0)});
  }
  auto merge = merge_of({file("a.db"), file("b.db")});
  ASSERT_TRUE(merge) << merge.error().message;
  size_t rows = 0;
  MergedSink sink;
  sink.row = [&](const StepRow& row) {
    ++rows;
    EXPECT_NEAR(row.find(0)->ms[index(Category::kStragglerWait)], 30, 0.1);
    EXPECT_NEAR(row.find(0)->ms[index(Category::kCommTransfer)], 2, 0.1);
    EXPECT_NEAR(row.caused_ms(2, 0), 30, 0.1);
    EXPECT_NEAR(row.find(1)->ms[index(Category::kStragglerWait)], 0, 0.1);
    EXPECT_NEAR(row.find(3)->ms[index(Category::kCommTransfer)], 2, 0.1);
  };
  ASSERT_TRUE(rebuild_merged(*merge, {}, sink));
  EXPECT_EQ(rows, 100u);
}

TEST_F(Merge, ADamagedFileIsMergedAsFarAsItCanBeRead) {
  const Job job{.steps = 10'000};  // several segments
  write_file(file("a.db"), job, {0});
  write_file(file("b.db"), job, {1});
  {
    auto db = store::Database::open(file("b.db"), SQLITE_OPEN_READWRITE, "b.db");
    ASSERT_TRUE(db) << db.error().message;
    ASSERT_TRUE(db->exec("UPDATE block SET data = x'5a5a5a5a5a' WHERE segment = (SELECT min(segment) FROM block)"));
  }
  auto merge = merge_of({file("a.db"), file("b.db")});
  ASSERT_TRUE(merge) << merge.error().message;
  const auto snapshot = rebuild_merged(*merge);
  ASSERT_TRUE(snapshot) << snapshot.error().message;
  EXPECT_TRUE(notes(*snapshot, "b.db: ")) << "no note of the damage";
  EXPECT_TRUE(notes(*snapshot, "damaged and left out"));
  EXPECT_EQ(snapshot->steps, 10'000u);
}

TEST_F(Merge, WhatIsNotOneJobIsRefused) {
  write_file(file("a.db"), {}, {0});
  write_file(file("again.db"), {}, {0});
  write_file(file("four.db"), {.ranks = 4, .world = 4}, {1});
  write_file(file("later.db"), {}, {1}, 0, [](uint64_t) { return false; });
  EXPECT_EQ(refusal({file("a.db"), file("again.db")}),
            "a.db and again.db both hold rank 0 of attempt 1: not two nodes of one job");
  EXPECT_EQ(refusal({file("a.db"), file("four.db")}),
            "a.db is of a job of 2 ranks, four.db of one of 4: not two nodes of one job");
  EXPECT_EQ(refusal({file("a.db"), file("later.db")}),
            "a.db and later.db have no step in common: not two nodes of one job");
}

}  // namespace
}  // namespace stepscope
