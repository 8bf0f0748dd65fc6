// One frame of the terminal view from a snapshot that is already parsed, and the bytes for the terminal.
#include <benchmark/benchmark.h>

#include "../../tests/support/example_snapshot.h"
#include "tui/frame.h"
#include "tui/screen.h"

namespace stepscope::tui {
namespace {

Snapshot snapshot_of(int ranks) {
  Snapshot s = examples::straggler(ranks);
  s.run.status = "running";
  return s;
}

void BM_Screen(benchmark::State& state) {
  const ScreenInput in{.told = std::make_shared<Told>(snapshot_of(static_cast<int>(state.range(0)))), .live = true};
  const Size size{static_cast<int>(state.range(1)), static_cast<int>(state.range(2))};
  Grid before;
  for (auto _ : state) {
    Grid now = draw_screen(in, {}, size).grid;
    benchmark::DoNotOptimize(frame_bytes(&before, now, ColorDepth::kTrue));
    before = std::move(now);
  }
}
BENCHMARK(BM_Screen)->Args({8, 80, 24})->Args({1000, 80, 24})->Args({1000, 200, 50})->Unit(benchmark::kMillisecond);

// Once per answer of the agent: the page of a snapshot.
void BM_Told(benchmark::State& state) {
  const Snapshot snapshot = snapshot_of(static_cast<int>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(Told(snapshot));
}
BENCHMARK(BM_Told)->Arg(8)->Arg(1000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace stepscope::tui
