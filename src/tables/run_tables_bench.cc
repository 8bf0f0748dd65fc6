// Rows per second of the table `steps`, as a consumer of the stream gets them, and of CSV.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include "../../tests/support/random_rows.h"
#include "store/run_writer.h"
#include "tables/arrow_export.h"
#include "tables/csv.h"
#include "tables/run_tables.h"

namespace stepscope::tables {
namespace {

constexpr size_t kCells = 1'000'000;

std::string write_run(int ranks) {
  const std::string path = "/tmp/ss-run-tables-bench-" + std::to_string(::getpid()) + ".db";
  ::unlink(path.c_str());
  examples::JobRows job({.ranks = ranks});
  std::vector<StepRow> rows;
  for (int i = 0; i < 1024; ++i) rows.push_back(job.next());
  RunWriter writer(path, {.run_id = "bench", .start_ns = 0});
  for (size_t i = 0; i < kCells / static_cast<size_t>(ranks); ++i) {
    StepRow& row = rows[i % rows.size()];
    row.step = i;
    writer.add_row(row);
  }
  writer.close();
  return path;
}

void BM_Stream(benchmark::State& state) {
  const std::string path = write_run(static_cast<int>(state.range(0)));
  int64_t rows = 0;
  for (auto _ : state) {
    auto opened = open_table(path, "steps");
    ArrowArrayStream stream{};
    export_stream(std::move(opened->source), {}, &stream);
    ArrowArray batch{};
    while (stream.get_next(&stream, &batch) == 0 && batch.release) {
      rows += batch.length;
      batch.release(&batch);
    }
    stream.release(&stream);
  }
  state.SetItemsProcessed(rows);
  state.SetLabel("items = rows");
  ::unlink(path.c_str());
}
BENCHMARK(BM_Stream)->Arg(2)->Arg(64)->Unit(benchmark::kMillisecond);

void BM_Csv(benchmark::State& state) {
  const std::string path = write_run(64);
  int64_t rows = 0;
  for (auto _ : state) {
    auto opened = open_table(path, "steps");
    for (;;) {
      const auto batch = opened->source->next();
      if (!batch || !*batch) break;
      benchmark::DoNotOptimize(csv_rows(opened->source->fields(), **batch));
      rows += static_cast<int64_t>((*batch)->rows);
    }
  }
  state.SetItemsProcessed(rows);
  state.SetLabel("items = rows");
  ::unlink(path.c_str());
}
BENCHMARK(BM_Csv)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace stepscope::tables
