// Throughput of the run file in rank-steps per second, and its bytes per rank and step.
#include <benchmark/benchmark.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../tests/support/random_rows.h"
#include "store/run_reader.h"
#include "store/run_writer.h"
#include "store/segment.h"

namespace stepscope {
namespace {

std::string file_path() { return "/tmp/ss-run-file-bench-" + std::to_string(::getpid()) + ".db"; }

std::vector<StepRow> rows_of(int ranks, size_t count, bool gpu) {
  examples::JobRows job({.ranks = ranks, .gpu = gpu});
  std::vector<StepRow> rows;
  for (size_t i = 0; i < count; ++i) rows.push_back(job.next());
  return rows;
}

// Distinct rows would fill memory: the same ones again, under new numbers.
void write_run(const std::string& path, std::vector<StepRow>& rows, size_t count) {
  ::unlink(path.c_str());
  RunWriter writer(path, {.run_id = "bench", .start_ns = 0});
  for (size_t i = 0; i < count; ++i) {
    StepRow& row = rows[i % rows.size()];
    row.step = static_cast<uint32_t>(i);
    writer.add_row(row);
  }
  writer.close();
}

void report(benchmark::State& state, const std::string& path, size_t cells) {
  struct stat info{};
  ::stat(path.c_str(), &info);
  state.counters["bytes_per_rank_step"] = static_cast<double>(info.st_size) / static_cast<double>(cells);
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()) * static_cast<int64_t>(cells));
  state.SetLabel("items = rank-steps");
}

size_t steps_for(int ranks) { return static_cast<size_t>(200'000 / ranks); }

void write_file(benchmark::State& state, bool gpu) {
  const int ranks = static_cast<int>(state.range(0));
  const size_t steps = steps_for(ranks);
  std::vector<StepRow> rows = rows_of(ranks, std::min<size_t>(steps, 65536 / static_cast<size_t>(ranks)), gpu);
  for (auto _ : state) write_run(file_path(), rows, steps);
  report(state, file_path(), steps * static_cast<size_t>(ranks));
  ::unlink(file_path().c_str());
}

void BM_Write(benchmark::State& state) { write_file(state, false); }
void BM_WriteTwoLedgers(benchmark::State& state) { write_file(state, true); }
BENCHMARK(BM_Write)->Arg(2)->Arg(8)->Arg(64)->Arg(1024)->Arg(4096)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_WriteTwoLedgers)->Arg(64)->Unit(benchmark::kMillisecond);

void BM_Read(benchmark::State& state) {
  const int ranks = static_cast<int>(state.range(0));
  const size_t steps = steps_for(ranks);
  std::vector<StepRow> rows = rows_of(ranks, std::min<size_t>(steps, 65536 / static_cast<size_t>(ranks)), false);
  write_run(file_path(), rows, steps);
  for (auto _ : state) {
    auto reader = RunReader::open(file_path());
    double wall_ms = 0;
    (void)reader->for_each_row({}, [&](const StoredRow& row) { return wall_ms += row.row.wall_ms, true; });
    benchmark::DoNotOptimize(wall_ms);
  }
  report(state, file_path(), steps * static_cast<size_t>(ranks));
  ::unlink(file_path().c_str());
}
BENCHMARK(BM_Read)->Arg(2)->Arg(64)->Arg(4096)->Unit(benchmark::kMillisecond);

void BM_Sums(benchmark::State& state) {
  const size_t steps = steps_for(64);
  std::vector<StepRow> rows = rows_of(64, 1024, false);
  write_run(file_path(), rows, steps);
  for (auto _ : state) {
    auto reader = RunReader::open(file_path());
    benchmark::DoNotOptimize(reader->sums());
  }
  report(state, file_path(), steps * 64);
  ::unlink(file_path().c_str());
}
BENCHMARK(BM_Sums)->Unit(benchmark::kMillisecond);

// One flush of a live run: what the agent's loop waits for, every 64 rows.
void BM_Flush(benchmark::State& state) {
  const int ranks = static_cast<int>(state.range(0));
  std::vector<StepRow> rows = rows_of(ranks, 64, false);
  ::unlink(file_path().c_str());
  RunWriterOptions options{.run_id = "bench", .start_ns = 0, .flush_rows = 1'000'000};
  RunWriter writer(file_path(), options);
  uint32_t step = 0;
  for (auto _ : state) {
    state.PauseTiming();
    for (StepRow& row : rows) {
      row.step = step++;
      writer.add_row(row);
    }
    state.ResumeTiming();
    writer.flush(1'000'000'000ull * step);
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()) * 64 * ranks);
  writer.close();
  ::unlink(file_path().c_str());
}
BENCHMARK(BM_Flush)->Arg(8)->Arg(512)->Iterations(10)->Unit(
    benchmark::kMillisecond);  // filling it takes far longer than what is timed

}  // namespace
}  // namespace stepscope
