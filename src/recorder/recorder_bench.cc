// ns per mark with the clock (1, 2, 4 threads), when off, through the C ABI, and of a usage mark.
#include <benchmark/benchmark.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "recorder/recorder.h"
#include "stepscope/stepscope.h"

namespace stepscope::recorder {
namespace {

void turn_on(const benchmark::State& state) {
  if (state.thread_index() != 0) return;
  OpenOptions options;
  options.shm_dir = "/dev/shm";
  if (!open(options)) abort();
}

void turn_off(const benchmark::State& state) {
  if (state.thread_index() == 0) discard();
}

void BM_Clock(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(monotonic_ns());
}
BENCHMARK(BM_Clock);

void BM_Mark(benchmark::State& state) {
  turn_on(state);
  uint64_t i = 0;
  for (auto _ : state) mark(Kind::kForward, Edge::kBegin, 1, i++);
  turn_off(state);
}
BENCHMARK(BM_Mark)->ThreadRange(1, 4)->UseRealTime();

void BM_MarkStepEnd(benchmark::State& state) {  // looks at the control word as well
  turn_on(state);
  for (auto _ : state) mark(Kind::kOptimizer, Edge::kEnd, 1);
  turn_off(state);
}
BENCHMARK(BM_MarkStepEnd);

void BM_MarkOff(benchmark::State& state) {
  for (auto _ : state) mark(Kind::kForward, Edge::kBegin, 1);
}
BENCHMARK(BM_MarkOff);

void BM_UsageMark(benchmark::State& state) {
  turn_on(state);
  for (auto _ : state) usage_mark();
  turn_off(state);
}
BENCHMARK(BM_UsageMark);

void BM_CPhase(benchmark::State& state) {  // by name: hashes the text, finds it known
  turn_on(state);
  for (auto _ : state) stepscope_phase_begin("tokenize");
  turn_off(state);
}
BENCHMARK(BM_CPhase);

}  // namespace
}  // namespace stepscope::recorder
