// Memory of an agent with 2 or 8 local ranks in worlds of different size: the engine alone, then with the run file and
// a snapshot every 100 steps. Each case runs in a process of its own; peak_MiB is the most that process held beyond an
// empty one. Figures: docs/scale.md.
#include <benchmark/benchmark.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "../../tests/support/local_ranks.h"

namespace stepscope {
namespace {

double peak_mib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::strtod(line.c_str() + 6, nullptr) / 1024;
  return 0;
}

void BM_WorldMemory(benchmark::State& state) {
  double mib = 0;
  for (auto _ : state) {
    int ends[2];
    if (::pipe(ends) != 0) return state.SkipWithError("pipe");
    const pid_t child = ::fork();
    if (child == 0) {
      const double before = peak_mib();
      examples::LocalRanks{.ranks = static_cast<int>(state.range(0)),
                           .world = static_cast<int>(state.range(1)),
                           .with_file = state.range(2) != 0}
          .run([] {});
      const double held = peak_mib() - before;
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
BENCHMARK(BM_WorldMemory)
    ->ArgNames({"local", "world", "file"})
    ->ArgsProduct({{2, 8}, {8, 512, 1024, 16384}, {0, 1}})
    ->Iterations(1)
    ->Unit(benchmark::kSecond);

}  // namespace
}  // namespace stepscope
