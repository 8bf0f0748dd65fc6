// Bytes per rank and step, and the bound on the file's size.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <cstdio>
#include <map>

#include "random_rows.h"
#include "scratch_folder.h"
#include "store/run_reader.h"
#include "store/run_writer.h"
#include "store/segment.h"

namespace stepscope {
namespace {

using examples::JobRows;
using testing::ScratchFolder;

constexpr uint64_t kSecond = 1'000'000'000;

uint64_t size_of(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 ? static_cast<uint64_t>(info.st_size) : 0;
}

RunWriterOptions options_for() {
  RunWriterOptions options;
  options.run_id = "run-1";
  options.start_ns = 1'000'000'000'000;
  return options;
}

// A run at 25 steps/s, as the agent feeds it. Returns bytes on disk per rank and step.
double bytes_per_cell(examples::JobShape shape, uint32_t steps) {
  ScratchFolder folder;
  JobRows job(shape);
  RunWriter writer(folder.file("run.db"), options_for());
  for (uint32_t i = 0; i < steps; ++i) {
    writer.add_row(job.next());
    writer.tick(1000 * kSecond + i * kSecond / 25);
  }
  writer.close();
  EXPECT_EQ(writer.stats().lost(), 0u);
  const double bytes = static_cast<double>(size_of(folder.file("run.db"))) / (static_cast<double>(steps) * shape.ranks);
  std::printf("[ measured ] %d ranks, %u steps, noise %.0f %%, scale %g: %.2f bytes per rank and step\n", shape.ranks,
              steps, shape.noise * 100, shape.scale, bytes);
  return bytes;
}

TEST(RunSize, AtMostSixteenBytesPerRankAndStep) {
  EXPECT_LE(bytes_per_cell({.ranks = 2}, 40'000), 16);
  EXPECT_LE(bytes_per_cell({.ranks = 8}, 12'000), 16);
  EXPECT_LE(bytes_per_cell({.ranks = 64}, 1'500), 16);
  EXPECT_LE(bytes_per_cell({.ranks = 64, .scale = 0.04}, 1'500), 16);  // steps of 1.6 ms
  EXPECT_LE(bytes_per_cell({.ranks = 64, .noise = 0.05}, 1'500), 16);  // a noisy cluster
}

TEST(RunSize, ASecondLedgerAndAnAllocatorCostLessThanTheFirst) {
  EXPECT_LE(bytes_per_cell({.ranks = 64, .gpu = true}, 1'500), 24);
}

struct Bounded {
  std::vector<StoredRow> rows;
  StoredSums sums;
  uint64_t bytes = 0, dropped = 0;
};

Bounded bounded_run(RunWriterOptions options, int ranks, uint32_t steps, std::vector<double>& wall_ms,
                    std::vector<float>& slowest) {
  ScratchFolder folder;
  JobRows job({.ranks = ranks});
  Bounded out;
  wall_ms.assign(static_cast<size_t>(ranks), 0);
  {
    RunWriter writer(folder.file("run.db"), options);
    for (uint32_t i = 0; i < steps; ++i) {
      const StepRow row = job.next();
      for (int r = 0; r < ranks; ++r) wall_ms[static_cast<size_t>(r)] += row.cells[static_cast<size_t>(r)].wall_ms;
      slowest.push_back(row.wall_ms);
      writer.add_row(row);
      if (i % 64 == 0) out.bytes = std::max(out.bytes, size_of(folder.file("run.db")));
    }
    writer.close();
    EXPECT_FALSE(writer.take_error());
    EXPECT_EQ(writer.stats().lost(), 0u);
    out.dropped = writer.stats().dropped_steps;
  }
  auto reader = RunReader::open(folder.file("run.db"));
  EXPECT_TRUE(reader);
  EXPECT_TRUE(reader->for_each_row({}, [&](const StoredRow& row) { return out.rows.push_back(row), true; }));
  EXPECT_EQ(reader->damaged(), 0u) << reader->damage();
  out.sums = reader->sums().value();
  return out;
}

TEST(RunSize, TheFileKeepsItsBound) {
  RunWriterOptions options = options_for();
  options.max_bytes = 2u << 20;
  std::vector<double> wall_ms;
  std::vector<float> slowest;
  const Bounded run = bounded_run(options, 16, 20'000, wall_ms, slowest);  // 320,000 cells: some 4 MB unthinned
  EXPECT_LE(run.bytes, options.max_bytes);
  EXPECT_GT(run.bytes, options.max_bytes / 2) << "the room is used";
  EXPECT_EQ(run.dropped, 0u);
  EXPECT_EQ(run.rows.back().row.step, 19'999u);
  EXPECT_EQ(run.rows.back().stride, 1u);
  EXPECT_GT(run.rows.front().stride, 1u);
}

TEST(RunSize, OlderStepsThinOutByHalving) {
  RunWriterOptions options = options_for();
  options.full_steps = 2048;
  std::vector<double> wall_ms;
  std::vector<float> slowest;
  const Bounded run = bounded_run(options, 8, 24'000, wall_ms, slowest);
  std::map<uint32_t, uint32_t> rows_of_stride;
  uint32_t last_stride = 1u << 30;
  for (const StoredRow& row : run.rows) {
    ++rows_of_stride[row.stride];
    EXPECT_LE(row.stride, last_stride) << "the newer, the finer";
    EXPECT_EQ(row.row.step % row.stride, 0u);
    last_stride = row.stride;
  }
  EXPECT_GE(rows_of_stride[1], 2048u);
  EXPECT_LE(rows_of_stride[1], 2048u + 2 * 512u);
  EXPECT_GE(rows_of_stride.size(), 4u);
  // Sums over all steps stay, though most rows went.
  EXPECT_LT(run.rows.size(), 9'000u);
  EXPECT_EQ(run.sums.steps, 24'000u);
  for (size_t r = 0; r < 8; ++r) {
    EXPECT_EQ(run.sums.ranks[r].steps, 24'000u);
    EXPECT_NEAR(run.sums.ranks[r].wall_ms, wall_ms[r], wall_ms[r] * 1e-6 + 24'000 * 1e-4);
    EXPECT_NEAR(run.sums.ranks[r].samples, 32.0 * 24'000, 1);
    double categories = 0;
    for (double ms : run.sums.ranks[r].ms) categories += ms;
    EXPECT_NEAR(categories, run.sums.ranks[r].wall_ms, 1e-6 * wall_ms[r]);
  }
}

TEST(RunSize, ThinnedRowsRememberTheirSlowestStep) {
  std::vector<store::FlatRow> rows;
  for (uint32_t step = 0; step < 64; ++step) {
    store::FlatRow row{.step = step};
    row.ranks = {0, 1};
    row.cells.resize(2);
    for (store::FlatCell& cell : row.cells) cell.present = true, cell.wall_ms = cell.ms[index(Category::kForward)] = 10;
    if (step == 37) row.cells[1].wall_ms = row.cells[1].ms[index(Category::kForward)] = 90;
    rows.push_back(row);
  }
  store::Segment s = store::make_segment(0, rows, rows[0].ranks);
  for (int level = 1; level <= 4; ++level) s = store::thin(std::vector<store::Segment>{s});
  ASSERT_EQ(s.head.rows, 4u);  // steps 0, 16, 32, 48
  EXPECT_EQ(s.step[2], 32);
  const double quantum_ms = s.head.quantum_ns * 1e-6;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    for (uint32_t row = 0; row < 4; ++row) {
      const double peak_ms = static_cast<double>(s.values(rank, row)[store::kPeak]) * quantum_ms;
      EXPECT_NEAR(peak_ms, rank == 1 && row == 2 ? 80 : 0, 2 * quantum_ms);
    }
  }
}

TEST(RunSize, ManySeriesOfSamplesKeepTheirBound) {
  ScratchFolder folder;
  RunWriterOptions options = options_for();
  options.max_bytes = 1u << 20;  // 64 KiB for samples
  RunWriter writer(folder.file("run.db"), options);
  std::mt19937_64 random(1);
  for (int64_t second = 0; second < 3000; ++second) {
    for (int idx = 0; idx < 20; ++idx)
      writer.add_sample({"rank", idx, "rss_bytes"}, options.start_ns + second * static_cast<int64_t>(kSecond),
                        1e9 + static_cast<double>(random() % 1'000'000) * 1000 + (second == 700 ? 5e9 : 0));
    writer.tick((1000 + static_cast<uint64_t>(second)) * kSecond);
  }
  writer.close();
  EXPECT_EQ(writer.stats().lost_samples, 0u);
  EXPECT_LE(size_of(folder.file("run.db")), 320u << 10);
  auto reader = RunReader::open(folder.file("run.db"));
  const auto points = reader->samples({"rank", 3, "rss_bytes"}).value();
  EXPECT_LT(points.size(), 2500u);
  EXPECT_GT(points.size(), 300u);
  EXPECT_NEAR(points.front().at_s, 0, 1e-3);
  EXPECT_NEAR(points.back().at_s, 2999, 1e-3);
  double peak = 0;
  for (size_t i = 1; i < points.size(); ++i) {
    EXPECT_GT(points[i].at_s, points[i - 1].at_s);
    peak = std::max(peak, points[i].peak);
  }
  EXPECT_GT(peak, 5.9e9) << "the largest value survives thinning";
}

}  // namespace
}  // namespace stepscope
