// Writes the run file that tests/store reads with other tools, where SS_EXAMPLE_RUN_DB says. Without it: to a scratch
// folder, so that the example itself stays sound.
#include <gtest/gtest.h>

#include <cstdlib>

#include "random_rows.h"
#include "scratch_folder.h"
#include "store/run_reader.h"
#include "store/run_writer.h"

namespace stepscope {
namespace {

constexpr int64_t kStartNs = 1'000'000'000'000;
constexpr int kRanks = 4, kSteps = 3000;

std::vector<RankLife> lives() {
  std::vector<RankLife> out(kRanks);
  for (int r = 0; r < kRanks; ++r) {
    RankLife& life = out[static_cast<size_t>(r)];
    life.rank = life.local_rank = r, life.world_size = kRanks, life.pid = 4000 + r, life.hostname = "node-a";
    life.steps = kSteps, life.ended = life.clean_exit = true, life.exit_code = 0;
    life.process_start_ns = kStartNs, life.end_ns = kStartNs + 180'000'000'000;
  }
  return out;
}

void write_example(const std::string& path) {
  RunWriterOptions options{.run_id = "example", .version = "0.1.0", .start_ns = kStartNs};
  options.finding_json = [](const Finding& f) {
    return R"({"id":")" + f.id + R"(","kind":")" + f.kind.str() + R"("})";
  };
  RunWriter writer(path, options);
  RunInfo run;
  run.name = "example", run.started_at = "2026-01-01T00:00:00Z", run.status = "completed", run.exit_code = 0,
  run.world_size = kRanks;
  run.duration_s = 180, run.nodes = 1, run.command = {"torchrun", "--nproc-per-node=4", "train.py"};
  writer.set_run(run);
  writer.set_lives(lives());
  writer.set_group(1, "default_pg", {0, 1, 2, 3});
  writer.add_event({.time_ns = kStartNs, .kind = "attempt", .text = "attempt 1 starts with 4 ranks"});
  writer.add_event({.time_ns = kStartNs + 40'000'000'000, .step = 499, .kind = "checkpoint", .text = "400 ms"});
  examples::JobRows job({.ranks = kRanks});
  for (int i = 0; i < kSteps; ++i) {
    writer.add_row(job.next());
    if (i % 25 == 0) writer.add_sample({"rank", 1, "rss_bytes"}, kStartNs + i * 40'000'000ll, 1e9 + i * 1e4);
  }
  Finding straggler;
  straggler.id = "f1", straggler.kind = FindingKind::kComputeStraggler, straggler.severity = Severity::kCrit,
  straggler.ranks = {1}, straggler.victims = {0, 2, 3};
  straggler.phase = "backward", straggler.title = "Rank 1 is late in backward", straggler.detected_step = 16,
  straggler.cost_share = 0.13;
  Finding bound;
  bound.id = "f2", bound.kind = FindingKind::kComputeBound, bound.job_scope = true;
  writer.put_findings({straggler, bound}, kSteps - 1);
  writer.put_snapshot(R"({"schema_version":"1.0","run":{"name":"example"}})", kSteps - 1, kStartNs + 179'000'000'000);
  writer.close();
  EXPECT_FALSE(writer.take_error());
  EXPECT_EQ(writer.stats().lost(), 0u);
}

TEST(RunFileExample, IsWritten) {
  const char* asked = std::getenv("SS_EXAMPLE_RUN_DB");
  const testing::ScratchFolder folder;
  const std::string path = asked ? asked : folder.file("run.db");
  write_example(path);
  auto reader = RunReader::open(path);
  ASSERT_TRUE(reader) << reader.error().message;
  EXPECT_EQ(reader->sums()->steps, static_cast<uint64_t>(kSteps));
  EXPECT_EQ(reader->findings()->size(), 2u);
}

}  // namespace
}  // namespace stepscope
