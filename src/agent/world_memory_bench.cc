// Memory of an agent with 8 local ranks in worlds of different size: the engine alone, then with the run file and a summary
// every 100 steps. Each case runs in a process of its own; peak_MiB is the most that process held beyond an empty one.
#include <benchmark/benchmark.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "diagnose/engine.h"
#include "store/run_writer.h"

namespace stepscope {
namespace {

constexpr int kLocal = 8;
constexpr size_t kCollectives = 130;
constexpr uint32_t kSteps = 6000;

double peak_mib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::strtod(line.c_str() + 6, nullptr) / 1024;
  return 0;
}

RankStep step_of(uint32_t number, int rank) {
  RankStep step;
  step.step = number;
  step.begin_ns = 1'000'000'000ll + number * 40'000'000ll;
  step.end_ns = step.begin_ns + 40'000'000;
  const int64_t stall_ns = rank == 1 ? 20'000 : 60'000, own_ns = 40'000'000 - stall_ns * static_cast<int64_t>(kCollectives);
  step.segments.resize(kCollectives + 1);
  for (LedgerNs& s : step.segments) s[index(Category::kForward)] = own_ns / static_cast<int64_t>(kCollectives + 1);
  step.segments[0][index(Category::kForward)] += own_ns % static_cast<int64_t>(kCollectives + 1);
  step.own[index(Category::kForward)] = own_ns;
  for (size_t k = 0; k < kCollectives; ++k) {
    step.stalls.push_back({7, k, 0, stall_ns, Category::kForward});
    step.collectives.push_back({.group = 7, .sequence = k, .bytes = 1 << 20, .since_backward_ns = 1});
  }
  return step;
}

double run(int world, bool with_file) {
  const double before = peak_mib();
  const std::string path = "/tmp/ss-world-memory-" + std::to_string(::getpid()) + ".db";
  {
    Engine engine({});
    std::unique_ptr<RunWriter> writer;
    if (with_file) {
      writer = std::make_unique<RunWriter>(path, RunWriterOptions{.run_id = "bench"});
      engine.set_row_sink([&](const StepRow& row) { writer->add_row(row); });
    }
    for (int r = 0; r < kLocal; ++r) engine.announce(r, world);
    for (uint32_t i = 0; i < kSteps; ++i) {
      for (int r = 0; r < kLocal; ++r) engine.feed(r, step_of(i, r));
      if (with_file && i % 100 == 99) benchmark::DoNotOptimize(engine.snapshot());
    }
    engine.finish();
    benchmark::DoNotOptimize(engine.snapshot());
  }
  for (const char* more : {"", "-wal", "-shm", "-journal"}) ::unlink((path + more).c_str());
  return peak_mib() - before;
}

void BM_WorldMemory(benchmark::State& state) {
  double mib = 0;
  for (auto _ : state) {
    int ends[2];
    if (::pipe(ends) != 0) return state.SkipWithError("pipe");
    const pid_t child = ::fork();
    if (child == 0) {
      const double held = run(static_cast<int>(state.range(0)), state.range(1) != 0);
      ::_exit(::write(ends[1], &held, sizeof held) == sizeof held ? 0 : 1);
    }
    ::close(ends[1]);
    const bool told = ::read(ends[0], &mib, sizeof mib) == sizeof mib;
    ::close(ends[0]);
    ::waitpid(child, nullptr, 0);
    if (!told) return state.SkipWithError("the case died");
  }
  state.counters["peak_MiB"] = mib;
}
BENCHMARK(BM_WorldMemory)->ArgNames({"world", "file"})->ArgsProduct({{8, 512, 4096, 16384}, {0, 1}})->Iterations(1)->Unit(benchmark::kSecond);

}  // namespace
}  // namespace stepscope
