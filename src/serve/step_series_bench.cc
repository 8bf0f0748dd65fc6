// What a browser's questions cost for a run of 1,000 ranks × 10,000 steps. With SS_KEEP=<folder> the run file stays
// there (run.db), for a look at it.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstdlib>

#include "../../tests/support/random_rows.h"
#include "serve/step_series.h"
#include "store/run_writer.h"

namespace stepscope {
namespace {

constexpr int kRanks = 1000;
constexpr size_t kSteps = 10'000;

const RunState& example() {
  static const RunState run = [] {
    const char* kept = std::getenv("SS_KEEP");
    const std::string path = kept ? std::string(kept) + "/run.db" : "/tmp/ss-serve-bench-" + std::to_string(::getpid());
    ::unlink(path.c_str());
    examples::JobRows job({.ranks = kRanks});
    std::vector<StepRow> rows;
    for (int i = 0; i < 64; ++i) rows.push_back(job.next());  // distinct ones would fill memory: they come again
    RunWriter writer(path, {.run_id = "bench", .start_ns = 0});
    for (size_t i = 0; i < kSteps; ++i) {
      StepRow& row = rows[i % rows.size()];
      row.step = i;
      writer.add_row(row);
    }
    writer.close();
    auto snapshot = std::make_shared<Snapshot>();
    for (int r = 0; r < kRanks; ++r) snapshot->ranks.push_back({.rank = r});
    if (!kept) std::atexit([] { ::unlink(("/tmp/ss-serve-bench-" + std::to_string(::getpid())).c_str()); });
    return RunState{.name = "bench", .version = 1, .run_file = path, .snapshot = snapshot};
  }();
  return run;
}

void heat(benchmark::State& state, int64_t from) {
  example();
  for (auto _ : state) benchmark::DoNotOptimize(heat_of(example(), {.from = from, .bins = 2048}));
}
void BM_HeatOfAllSteps(benchmark::State& state) { heat(state, 0); }
void BM_HeatOfTheNewest512(benchmark::State& state) { heat(state, static_cast<int64_t>(kSteps) - 512); }
void BM_OneStep(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(row_of(example(), 5000));
}
BENCHMARK(BM_HeatOfAllSteps)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_HeatOfTheNewest512)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_OneStep)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace stepscope
