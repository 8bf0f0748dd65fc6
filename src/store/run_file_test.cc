// What is written is read back: rows within their quantum, everything else as it was.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <sys/stat.h>

#include <cmath>
#include <fstream>
#include <tuple>

#include "random_rows.h"
#include "scratch_folder.h"
#include "store/metric.h"
#include "store/run_reader.h"
#include "store/run_writer.h"

namespace stepscope {
namespace {

using examples::JobRows;
using examples::JobShape;
using examples::WildRows;
using testing::ScratchFolder;

constexpr uint64_t kSecond = 1'000'000'000;

RunWriterOptions options_for(const char* id = "run-1") {
  RunWriterOptions options;
  options.run_id = id;
  options.version = "0.1.0";
  options.start_ns = 1'000'000'000'000;
  return options;
}

std::vector<StoredRow> read_rows(const std::string& path, RowQuery query = {}) {
  std::vector<StoredRow> rows;
  auto reader = RunReader::open(path);
  EXPECT_TRUE(reader) << (reader ? "" : reader.error().message);
  if (!reader) return rows;
  const Status status = reader->for_each_row(query, [&](const StoredRow& row) { return rows.push_back(row), true; });
  EXPECT_TRUE(status) << (status ? "" : status.error().message);
  EXPECT_EQ(reader->damaged(), 0u) << reader->damage();
  return rows;
}

double or_zero(double value) { return std::isfinite(value) ? value : 0; }

// Within a quantum, or within what a float of that size can tell.
void expect_ms(float was, float is, double quantum_ms, const char* what) {
  const double expected = std::clamp(or_zero(was), -1e12, 1e12);
  EXPECT_NEAR(is, expected, quantum_ms * 1.001 + std::abs(expected) * 2e-7) << what;
}

void expect_number(double was, double is, double relative, const char* what) {
  if (std::isnan(was))
    EXPECT_TRUE(std::isnan(is)) << what;
  else if (std::isinf(was))
    EXPECT_EQ(is, was) << what;
  else
    EXPECT_NEAR(is, std::clamp(was, -3.4028235e38, 3.4028235e38), std::abs(was) * relative + 1e-40) << what;
}

// Each kind of figure within what its coding keeps (docs/formats/run_file.md).
void expect_figure(field::Time, float was, float is, double quantum_ms, const char* what) {
  expect_ms(was, is, quantum_ms, what);
}
void expect_measured(float was, float is, double quantum_ms, const char* what) {
  if (was >= 0)
    expect_ms(was, is, quantum_ms, what);
  else
    EXPECT_LT(is, 0) << what;
}
void expect_figure(field::MeasuredTime, float was, float is, double quantum_ms, const char* what) {
  expect_measured(was, is, quantum_ms, what);
}
void expect_figure(field::CoarseTime, float was, float is, double quantum_ms, const char* what) {
  expect_measured(was, is, 32 * quantum_ms, what);
}
void expect_figure(field::Amount, double was, double is, double, const char* what) {
  expect_number(was, is, std::ldexp(1, -23), what);
}
void expect_figure(field::Size, double was, double is, double, const char* what) {
  expect_number(was, is, std::ldexp(1, -19), what);
}
void expect_figure(field::SizeOnceRead, double was, double is, double quantum_ms, const char* what) {
  expect_figure(field::Size(), was, is, quantum_ms, what);
}
void expect_figure(field::Reading, std::optional<double> was, std::optional<double> is, double, const char* what) {
  ASSERT_EQ(was.has_value(), is.has_value()) << what;
  if (was) expect_number(*was, *is, std::ldexp(1, -16) + std::ldexp(1, -23), what);
}
template <class Integer>
void expect_figure(auto, Integer was, Integer is, double, const char* what) {
  EXPECT_EQ(was, is) << what;
}

void expect_figures(const CellFigures& was, const CellFigures& is, double quantum_ms) {
#define FIGURE(kind, figure, ...) expect_figure(field::kind(), was.figure, is.figure, quantum_ms, #figure);
#include "align/step_fields.def"
}

void expect_host(const Cell& was, const Cell& is, double quantum_ms) {
  for (Category c : kLaunchPhases)
    expect_ms(was.launching_ms[index(c)], is.launching_ms[index(c)], 32 * quantum_ms, "launching");
  double size = 0;
  for (float ms : was.host_ms) size += std::abs(std::clamp(or_zero(ms), -1e12, 1e12));
  for (size_t c = 0; c < kCategoryCount; ++c)
    expect_ms(was.host_ms[c], is.host_ms[c], 32 * quantum_ms + size * 1e-12, "host ledger");
  expect_ms(was.host_wall_ms, is.host_wall_ms, 32 * quantum_ms + size * 1e-12, "host wall");
}

void expect_same(const Cell& was, const Cell& is, double quantum_ms) {
  ASSERT_EQ(was.rank, is.rank);
  // Rounding by running sums holds while floats can tell a quantum; a huge category hides the small ones after it.
  double size = 0;
  for (float ms : was.ms) size += std::abs(std::clamp(or_zero(ms), -1e12, 1e12));
  const double tolerance = quantum_ms + size * 1e-12;
  for (size_t c = 0; c < kCategoryCount; ++c)
    expect_ms(was.ms[c], is.ms[c], tolerance, std::string(kCategoryNames[c]).c_str());
  expect_ms(was.wall_ms, is.wall_ms, tolerance, "wall");
  expect_figures(was, is, quantum_ms);
  EXPECT_EQ(was.gpu, is.gpu);
  if (was.gpu) expect_host(was, is, quantum_ms);
}

TEST(RunFile, RowsOfAJobComeBackWithinTheQuantum) {
  ScratchFolder folder;
  JobRows job({.ranks = 5});
  std::vector<StepRow> rows;
  RunWriter writer(folder.file("run.db"), options_for());
  for (int i = 0; i < 3000; ++i) {
    rows.push_back(job.next());
    writer.add_row(rows.back());
  }
  writer.close();
  EXPECT_FALSE(writer.take_error());
  EXPECT_EQ(writer.stats().rows, 3000u);
  EXPECT_EQ(writer.stats().cells, 15000u);
  EXPECT_EQ(writer.stats().lost(), 0u);
  const std::vector<StoredRow> read = read_rows(folder.file("run.db"));
  ASSERT_EQ(read.size(), rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const StepRow &was = rows[i], &is = read[i].row;
    ASSERT_EQ(was.step, is.step);
    ASSERT_EQ(was.cells.size(), is.cells.size());
    EXPECT_EQ(read[i].stride, 1u);
    EXPECT_EQ(was.tags, is.tags);
    for (size_t r = 0; r < was.cells.size(); ++r) expect_same(was.cells[r], is.cells[r], 0.002048);
    // The job's last arriver is known for every waiter.
    ASSERT_EQ(was.caused.size(), is.caused.size());
    for (const Blame& b : was.caused) EXPECT_NEAR(b.ms, is.caused_ms(b.causer, b.waiter), 0.0021);
    EXPECT_NEAR(static_cast<double>(is.cells[0].end_ns), static_cast<double>(was.cells[0].end_ns), 1000);
    // The ledger stays closed.
    for (const Cell& cell : is.cells) {
      float sum = 0;
      for (float ms : cell.ms) sum += ms;
      EXPECT_NEAR(sum, cell.wall_ms, 1e-3 + 1e-6 * cell.wall_ms);
    }
  }
}

TEST(RunFile, TheHostsLedgerComesBackOnBothKindsOfJob) {
  for (const bool gpu : {false, true}) {
    ScratchFolder folder;
    JobRows job({.ranks = 2, .gpu = gpu});
    std::vector<StepRow> rows;
    {
      RunWriter writer(folder.file("run.db"), options_for());
      for (int i = 0; i < 100; ++i) writer.add_row(rows.emplace_back(job.next()));
    }
    const auto read = read_rows(folder.file("run.db"));
    ASSERT_EQ(read.size(), 100u);
    for (size_t i = 0; i < 100; ++i) {
      for (size_t r = 0; r < 2; ++r) {
        const Cell &was = rows[i].cells[r], &is = read[i].row.cells[r];
        ASSERT_EQ(is.gpu, gpu);
        for (size_t c = 0; c < kCategoryCount; ++c)
          EXPECT_NEAR(is.host_ms[c], was.host_ms[c], 0.07) << kCategoryNames[c];
        EXPECT_NEAR(is.host_wall_ms, was.host_wall_ms, 0.07);
        EXPECT_EQ(is.allocated_bytes > 0, gpu);
      }
    }
  }
}

TEST(RunFile, ArbitraryRowsComeBackWithinTheQuantum) {
  rc::check("write, read", [](uint64_t seed) {
    ScratchFolder folder;
    const int ranks = 1 + static_cast<int>(seed % 7);
    const int count = 1 + static_cast<int>(seed / 7 % 300);
    WildRows wild(seed, ranks);
    std::vector<StepRow> rows;
    RunWriterOptions options = options_for();
    options.flush_rows = 1 + static_cast<uint32_t>(seed / 13 % 80);
    RunWriter writer(folder.file("run.db"), options);
    for (int i = 0; i < count; ++i) {
      rows.push_back(wild.next());
      writer.add_row(rows.back());
    }
    writer.close();
    const std::vector<StoredRow> read = read_rows(folder.file("run.db"));
    RC_ASSERT(read.size() == rows.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      RC_ASSERT(rows[i].step == read[i].row.step);
      RC_ASSERT(rows[i].cells.size() == read[i].row.cells.size());
      for (size_t c = 0; c < rows[i].cells.size(); ++c) expect_same(rows[i].cells[c], read[i].row.cells[c], 0.131072);
    }
    RC_ASSERT(!::testing::Test::HasFailure());
  });
}

// tests/data/run/format_1_0.db: 400 steps of three ranks on GPUs, by the writer that knew the columns but `flops`.
TEST(RunFile, AnOldFileIsRead) {
  const std::vector<StoredRow> rows = read_rows(std::string(SS_SOURCE_DIR) + "/tests/data/run/format_1_0.db");
  ASSERT_EQ(rows.size(), 400u);
  ASSERT_EQ(rows[150].row.cells.size(), 3u);
  Cell was;
  was.rank = 1, was.gpu = true;
  was.ms[index(Category::kInputWait)] = 0.7905f, was.host_ms[index(Category::kInputWait)] = 0.7864f;
  was.ms[index(Category::kForward)] = 11.0612f, was.host_ms[index(Category::kForward)] = 4.3909f;
  was.ms[index(Category::kBackward)] = 25.2334f, was.host_ms[index(Category::kBackward)] = 9.7649f;
  was.ms[index(Category::kOptimizer)] = 2.9860f, was.host_ms[index(Category::kOptimizer)] = 1.1796f;
  was.ms[index(Category::kCommTransfer)] = 2.5149f;
  was.ms[index(Category::kHostPause)] = 8.2678f, was.host_ms[index(Category::kHostPause)] = 34.7341f;
  was.ms[index(Category::kUnattributed)] = 0.4157f, was.host_ms[index(Category::kUnattributed)] = 0.3932f;
  was.wall_ms = 51.2696f, was.host_wall_ms = 51.2492f;
  was.caused_ms = 28.0842f, was.gc_ms = 8.2678f, was.cpu_ms = 42.6639f;
  was.involuntary_switches = 0, was.loss = 2.5458984375;
  was.samples = 32, was.bytes = 209715200, was.signature = 0x1234567890abcdef;
  was.collectives = 8, was.fetches = 1, was.fetch_ready = 4, was.fetch_in_flight = 4;
  was.allocated_bytes = 32248954880, was.reserved_bytes = 42949672960, was.active_bytes = 33285996544;
  was.inactive_split_bytes = 4194304, was.peak_bytes = 40802189312, was.held_bytes = 21482176512;
  expect_same(was, rows[150].row.cells[1], 0.002048);
}

TEST(RunFile, EveryColumnIsDocumented) {
  std::ifstream page(std::string(SS_SOURCE_DIR) + "/docs/formats/run_file.md");
  const std::string text((std::istreambuf_iterator<char>(page)), std::istreambuf_iterator<char>());
  for (size_t m = store::metric_of(store::Figure{}); m < store::kMetricCount; ++m)
    EXPECT_NE(text.find("`" + std::string(store::metric_info(m).name) + "`"), std::string::npos)
        << store::metric_info(m).name;
}

TEST(RunFile, TheQuantumFollowsTheStep) {
  EXPECT_EQ(store::quantum_for(0.1), 8u);  // 100 us steps: 8 ns
  EXPECT_EQ(store::quantum_for(1.5), 64u);
  EXPECT_EQ(store::quantum_for(40), 2048u);
  EXPECT_EQ(store::quantum_for(10'000), 131072u);
  EXPECT_EQ(store::quantum_for(std::nan("")), 8u);
}

TEST(RunFile, FactsComeBackAsTheyWere) {
  ScratchFolder folder;
  RunWriterOptions options = options_for();
  options.finding_json = [](const Finding& f) { return "{\"kind\":\"" + f.kind.str() + "\"}"; };
  {
    RunWriter writer(folder.file("run.db"), options);
    RunInfo run;
    run.name = "night-7", run.started_at = "2026-01-02T03:04:05Z", run.status = "running", run.world_size = 4,
    run.nodes = 1;
    run.command = {"python", "train.py", "--name", "a b\"c"};
    run.versions = {{"torch", "2.15.0"}};
    writer.set_run(run);
    RankLife life;
    life.rank = 1, life.pid = 4711, life.hostname = "node-a", life.steps = 12, life.ended = true, life.exit_signal = 9;
    life.exception = "ValueError: x\ny", life.last_step_ns = 1'000'500'000'000, life.open_phase = Category::kBackward;
    life.startup[index(Category::kStartup)] = 1234567;
    life.unavailable = {"gpu: none"};
    life.device_memory_bytes = 80ull << 30;
    life.startup_meetings = {{1, 7, true, 1'000'000'000, 12'000'000'000}, {0, 1ull << 32, false, 5, 5}};
    life.out_of_memory = {{.requested_bytes = 5ull << 30,
                           .largest_free_block_bytes = 1 << 20,
                           .grown_bytes = 77,
                           .step = 12,
                           .phase = Category::kForward}};
    writer.set_lives({life});
    writer.set_group(0x9000000000000001ull, "dp", {0, 1, 2, 3});
    writer.add_event({.time_ns = 1'000'250'000'000, .rank = 1, .step = 12, .kind = "rank_death", .text = "signal 9\n"});
    Finding f = Finding::of(FindingKind::kComputeStraggler);
    f.ranks = {1}, f.victims = {0, 2}, f.phase = "backward", f.severity = Severity::kCrit, f.title = "Rank 1 is late";
    f.detected_step = 20, f.cost_share = 0.25, f.cost_seconds = 3, f.saves = Saving{.share = 0.2}, f.confidence = 0.75;
    f.first_step = 2, f.last_step = 24, f.pattern = "every step", f.action = "Compare backward";
    Finding g;
    g.kind = FindingKind::kWaitHeavy, g.job_scope = true;
    writer.put_findings({f, g}, 25);
    writer.put_findings({f}, 40);
    for (int i = 0; i < 300; ++i)
      writer.add_sample({"rank", 1, "rss_bytes"}, 1'000'000'000'000 + i * static_cast<int64_t>(kSecond), 1e9 + i * 1e6);
    writer.put_snapshot("{\"schema_version\":\"1.0\"}", 40, 1'000'300'000'000);
  }
  auto reader = RunReader::open(folder.file("run.db"));
  ASSERT_TRUE(reader) << reader.error().message;
  const StoredRun run = reader->run().value();
  EXPECT_EQ(run.name, "night-7");
  EXPECT_EQ(run.command, (std::vector<std::string>{"python", "train.py", "--name", "a b\"c"}));
  EXPECT_EQ(run.exit_code, -1);
  EXPECT_EQ(run.run_id, "run-1");
  ASSERT_EQ(run.versions.size(), 1u);
  EXPECT_EQ(run.versions[0].second, "2.15.0");
  const auto lives = reader->lives().value();
  ASSERT_EQ(lives.size(), 1u);
  EXPECT_EQ(lives[0].exit_signal, 9);
  ASSERT_EQ(lives[0].startup_meetings.size(), 2u);
  EXPECT_TRUE(lives[0].startup_meetings[0].waited);
  EXPECT_EQ(lives[0].startup_meetings[0].group, 1u);
  EXPECT_EQ(lives[0].startup_meetings[0].end_ns, 12'000'000'000);
  EXPECT_EQ(lives[0].startup_meetings[1].sequence, 1ull << 32);
  EXPECT_EQ(lives[0].exit_code, -1);
  EXPECT_EQ(lives[0].exception, "ValueError: x y");
  EXPECT_EQ(lives[0].last_step_ns, 1'000'500'000'000);
  EXPECT_EQ(lives[0].open_phase, Category::kBackward);
  EXPECT_EQ(lives[0].startup[index(Category::kStartup)], 1234567);
  EXPECT_TRUE(lives[0].ended);
  EXPECT_EQ(lives[0].device_memory_bytes, 80ull << 30);
  ASSERT_EQ(lives[0].out_of_memory.size(), 1u);
  EXPECT_EQ(lives[0].out_of_memory[0].requested_bytes, 5ull << 30);
  EXPECT_EQ(lives[0].out_of_memory[0].largest_free_block_bytes, 1u << 20);
  EXPECT_EQ(lives[0].out_of_memory[0].grown_bytes, 77u);
  EXPECT_EQ(lives[0].out_of_memory[0].step, 12u);
  EXPECT_EQ(lives[0].out_of_memory[0].phase, Category::kForward);
  EXPECT_EQ(lives[0].unavailable, std::vector<std::string>{"gpu: none"});
  const auto groups = reader->groups().value();
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].id, 0x9000000000000001ull);
  EXPECT_EQ(groups[0].ranks, (std::vector<int>{0, 1, 2, 3}));
  const auto events = reader->events().value();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_NEAR(static_cast<double>(events[0].time_ns), 1'000'250'000'000.0, 1000);
  EXPECT_EQ(events[0].text, "signal 9 ");
  const auto findings = reader->findings().value();
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[0].kind, "COMPUTE_STRAGGLER");
  EXPECT_EQ(findings[0].opened_step, 20);
  EXPECT_EQ(findings[0].closed_step, -1);
  EXPECT_EQ(findings[0].victims, (std::vector<int>{0, 2}));
  EXPECT_EQ(std::tuple(findings[0].first_step, findings[0].last_step, findings[0].detected_step),
            std::tuple(2, 24, 20));
  EXPECT_EQ(std::tuple(findings[0].cost_seconds, findings[0].saves_share, findings[0].confidence),
            std::tuple(3.0, 0.2, 0.75));
  EXPECT_EQ(std::tuple(findings[0].scope, findings[0].pattern, findings[0].action),
            std::tuple("ranks", "every step", "Compare backward"));
  EXPECT_EQ(std::tuple(findings[1].first_step, findings[1].saves_share), std::tuple(-1, std::nullopt));
  EXPECT_EQ(findings[0].json, "{\"kind\":\"COMPUTE_STRAGGLER\"}");
  EXPECT_EQ(findings[1].kind, "WAIT_HEAVY");
  EXPECT_EQ(findings[1].closed_step, 40);
  const auto points = reader->samples({"rank", 1, "rss_bytes"}).value();
  ASSERT_EQ(points.size(), 300u);
  for (int i = 0; i < 300; ++i) {
    EXPECT_NEAR(points[i].at_s, i, 1e-3);
    EXPECT_NEAR(points[i].value, 1e9 + i * 1e6, 1e9 * std::ldexp(1, -15));
  }
  EXPECT_EQ(reader->snapshot().value(), "{\"schema_version\":\"1.0\"}");
}

TEST(RunFile, LargeSnapshotsAreCompressed) {
  ScratchFolder folder;
  std::string json = "[";
  for (int i = 0; json.size() < 3u << 20; ++i) json += std::to_string(i) + ",";
  json += "0]";
  {
    RunWriter writer(folder.file("run.db"), options_for());
    writer.put_snapshot(json, 1, 0);
    writer.put_snapshot(std::string((64u << 20) + 1, 'x'), 2, 0);
    EXPECT_EQ(writer.stats().lost_snapshots, 1u);
  }
  EXPECT_LT(std::filesystem::file_size(folder.file("run.db")), 2u << 20);
  EXPECT_EQ(RunReader::open(folder.file("run.db"))->snapshot().value(), json);
}

TEST(RunFile, AttemptsAndChangingRankCountsStayApart) {
  ScratchFolder folder;
  {
    RunWriter writer(folder.file("run.db"), options_for());
    JobRows first({.ranks = 4}), second({.ranks = 2});
    for (int i = 0; i < 100; ++i) writer.add_row(first.next());
    writer.begin_attempt(1);
    for (int i = 0; i < 50; ++i) writer.add_row(second.next());
  }
  EXPECT_EQ(read_rows(folder.file("run.db"), {.attempt = 0}).size(), 100u);
  const auto rows = read_rows(folder.file("run.db"), {.attempt = 1, .from_step = 10, .to_step = 19});
  ASSERT_EQ(rows.size(), 10u);
  EXPECT_EQ(rows[0].row.step, 10u);
  EXPECT_EQ(rows[0].row.cells.size(), 2u);
  EXPECT_EQ(rows[0].attempt, 1);
}

// What a stored value says is what a cell restored from it has, or that it is not known.
TEST(RunFile, AFigureOfOneValueIsThatOfTheCell) {
  WildRows wild(7, 3);
  constexpr uint32_t kQuantumNs = 64;
  for (int i = 0; i < 50; ++i)
    for (const Cell& was : wild.next().cells) {
      const store::MetricValues values = store::quantise(store::to_flat(was), kQuantumNs);
      const Cell cell = store::restore(was.rank, values, kQuantumNs);
      const auto figure = [&](store::Figure f) {
        return store::figure_of(store::metric_of(f), values[store::metric_of(f)], kQuantumNs);
      };
      const auto same = [](std::optional<double> is, double cell_has) {
        return is && (*is == cell_has || (std::isnan(*is) && std::isnan(cell_has)));
      };
      const auto loss = figure(store::Figure::loss), cpu_ms = figure(store::Figure::cpu_ms);
      EXPECT_TRUE(cell.loss ? same(loss, *cell.loss) : !loss);
      ASSERT_EQ(cpu_ms.has_value(), cell.cpu_ms >= 0);
      if (cpu_ms) {
        EXPECT_EQ(static_cast<float>(*cpu_ms), cell.cpu_ms);
      }
      EXPECT_TRUE(same(figure(store::Figure::tokens), cell.tokens));
      EXPECT_EQ(static_cast<float>(*figure(store::Figure::caused_ms)), cell.caused_ms);
    }
}

// Segment by segment the file has the same rows, each once, though the writer lays segments together meanwhile.
TEST(RunFile, SegmentsComeOneByOneWhileTheFileGrows) {
  ScratchFolder folder;
  const std::string path = folder.file("run.db");
  JobRows first({.ranks = 2}), second({.ranks = 3});
  RunWriter writer(path, options_for());
  uint64_t now_ns = 1;
  const auto write = [&](JobRows& job, int count) {
    for (int i = 0; i < count; ++i) {
      writer.add_row(job.next());
      if (i % 50 == 49) writer.flush(now_ns += 6 * kSecond);
    }
  };
  write(first, 5000);
  writer.begin_attempt(1);
  write(second, 300);
  auto reader = RunReader::open(path);
  ASSERT_TRUE(reader);
  EXPECT_EQ(reader->attempts().value(), (std::vector<int32_t>{0, 1}));
  SegmentWalk walk;
  std::vector<std::pair<int32_t, int64_t>> steps;
  for (;;) {
    const auto part = reader->next_segment(walk);
    ASSERT_TRUE(part) << part.error().message;
    if (!*part) break;
    for (const int64_t step : (*part)->segment.step)
      if (step >= static_cast<int64_t>((*part)->from_step) && step <= static_cast<int64_t>((*part)->to_step))
        steps.emplace_back((*part)->segment.head.attempt, step);
    write(second, 50);
  }
  ASSERT_EQ(steps.size(), 5300u);
  for (int i = 0; i < 5300; ++i)
    ASSERT_EQ(steps[static_cast<size_t>(i)], i < 5000 ? std::pair(0, int64_t{i}) : std::pair(1, int64_t{i - 5000}));
}

// Steps of 50 us fill 32 bits in two and a half days.
TEST(RunFile, StepNumbersGoOnBeyond32Bits) {
  constexpr uint64_t kFirst = (uint64_t{1} << 32) - 150;
  ScratchFolder folder;
  {
    RunWriter writer(folder.file("run.db"), options_for());
    JobRows rows({.ranks = 2});
    for (int i = 0; i < 300; ++i) {
      StepRow row = rows.next();
      row.step += kFirst;
      writer.add_row(row);
    }
  }
  const auto all = read_rows(folder.file("run.db"));
  ASSERT_EQ(all.size(), 300u);
  for (uint64_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i].row.step, kFirst + i);
  EXPECT_EQ(read_rows(folder.file("run.db"), {.from_step = kFirst + 149, .to_step = kFirst + 151}).size(), 3u);
}

TEST(RunFile, ASecondWriterOfTheSameRunGoesOn) {
  ScratchFolder folder;
  const std::string path = folder.file("run.db");
  JobRows job({.ranks = 3});
  std::vector<StepRow> rows;
  for (int i = 0; i < 200; ++i) rows.push_back(job.next());
  {
    RunWriter writer(path, options_for());
    for (int i = 0; i < 130; ++i) writer.add_row(rows[i]);
    writer.add_sample({"host", -1, "cpu_share"}, 1'000'000'000'000, 0.5);
  }
  {
    RunWriter writer(path, options_for());  // reads its rings again from step 80 on
    EXPECT_FALSE(writer.take_error());
    for (int i = 80; i < 200; ++i) writer.add_row(rows[i]);
    writer.add_sample({"host", -1, "cpu_share"}, 1'000'100'000'000, 0.7);
  }
  const auto read = read_rows(path);
  ASSERT_EQ(read.size(), 200u);
  for (uint32_t i = 0; i < 200; ++i) EXPECT_EQ(read[i].row.step, i);
  EXPECT_EQ(RunReader::open(path)->samples({"host", -1, "cpu_share"})->size(), 2u);

  RunWriter other(path, options_for("run-2"));
  ASSERT_TRUE(other.failed());
  EXPECT_NE(other.take_error()->message.find("belongs to another run"), std::string::npos);
  other.close();
  EXPECT_EQ(read_rows(path).size(), 200u);
}

TEST(RunFile, IsPrivateAndOneFileWhenClosed) {
  ScratchFolder folder;
  {
    RunWriter writer(folder.file("run.db"), options_for());
    JobRows job({});
    for (int i = 0; i < 10; ++i) writer.add_row(job.next());
    writer.flush(1);
    struct stat info;
    for (const char* name : {"run.db", "run.db-wal", "run.db-shm"}) {
      ASSERT_EQ(::stat(folder.file(name).c_str(), &info), 0) << name;
      EXPECT_EQ(info.st_mode & 0777, 0600u) << name;
    }
  }
  int files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.path())) ++files;
  EXPECT_EQ(files, 1);
  EXPECT_EQ(read_rows(folder.file("run.db")).size(), 10u);
}

TEST(RunFile, RowsAreWrittenAfterFiveSecondsOrSixtyFourRows) {
  ScratchFolder folder;
  RunWriter writer(folder.file("run.db"), options_for());
  JobRows job({.ranks = 2});
  writer.add_row(job.next());
  writer.tick(1000 * kSecond);
  writer.tick(1004 * kSecond);
  EXPECT_EQ(read_rows(folder.file("run.db")).size(), 0u);
  writer.tick(1005 * kSecond);
  EXPECT_EQ(read_rows(folder.file("run.db")).size(), 1u);
  for (int i = 0; i < 63; ++i) writer.add_row(job.next());
  EXPECT_EQ(read_rows(folder.file("run.db")).size(), 1u);
  writer.add_row(job.next());
  EXPECT_EQ(read_rows(folder.file("run.db")).size(), 65u);
}

}  // namespace
}  // namespace stepscope
