// What one sample costs: eight ranks with four loader workers each (forked, sleeping) beside the other processes of
// this machine. The agent samples once a second: microseconds here are millionths of one core, 10000 us would be 1 %.
#include <benchmark/benchmark.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "base/clock.h"
#include "sampler/sampler.h"

namespace stepscope {
namespace {

constexpr int kRanks = 8, kWorkers = 4;
constexpr size_t kHeldBytes = 64 << 20;  // per rank; forked workers share it
constexpr uint64_t kSecond = 1'000'000'000;

// The processes live as long as this program.
class Job {
 public:
  Job() {
    for (int r = 0; r < kRanks; ++r) {
      int ready[2];
      if (::pipe(ready) != 0) ::abort();
      const int pid = ::fork();
      if (pid == 0) rank(ready[1]);
      char c = 0;
      if (::read(ready[0], &c, 1) != 1) ::abort();
      ::close(ready[0]);
      ::close(ready[1]);
      pids_.push_back(pid);
    }
  }
  ~Job() {
    for (int pid : pids_) ::kill(pid, SIGKILL);
    for (int pid : pids_) ::waitpid(pid, nullptr, 0);
  }
  const std::vector<int>& pids() const { return pids_; }

 private:
  [[noreturn]] static void rank(int ready) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    void* p = ::mmap(nullptr, kHeldBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    std::memset(p, 1, kHeldBytes);
    for (int w = 0; w < kWorkers; ++w) {
      if (::fork() == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) ::pause();
      }
    }
    if (::write(ready, "x", 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }
  std::vector<int> pids_;
};

Sampler make_sampler(const Job& job, uint64_t maps_interval_ns = 10 * kSecond) {
  Sampler sampler({.maps_interval_ns = maps_interval_ns, .devices = false});
  for (int r = 0; r < kRanks; ++r) sampler.add_rank(r, job.pids()[static_cast<size_t>(r)], 0);
  return sampler;
}

// A second of the agent's life without readings of memory maps (but the first, before the clock runs) …
void BM_SampleOneSecond(benchmark::State& state) {
  const Job job;
  Sampler sampler = make_sampler(job, 1'000'000 * kSecond);
  uint64_t now = monotonic_ns();
  for (int i = 0; i < 100; ++i) sampler.sample(now += kSecond);
  for (auto _ : state) sampler.sample(now += kSecond);
  state.counters["processes"] = kRanks * (1 + kWorkers);
}
BENCHMARK(BM_SampleOneSecond)->Unit(benchmark::kMicrosecond)->Iterations(200);

// … and with them, as they fall due: five minutes of life.
void BM_SampleOneSecondWithMaps(benchmark::State& state) {
  const Job job;
  Sampler sampler = make_sampler(job);
  uint64_t now = monotonic_ns();
  for (auto _ : state) sampler.sample(now += kSecond);
}
BENCHMARK(BM_SampleOneSecondWithMaps)->Unit(benchmark::kMicrosecond)->Iterations(300);

// The agent's loop comes by ten times a second; most calls have nothing to do.
void BM_NothingDue(benchmark::State& state) {
  const Job job;
  Sampler sampler = make_sampler(job);
  const uint64_t now = monotonic_ns();
  sampler.sample(now);
  for (auto _ : state) sampler.sample(now + 1);
}
BENCHMARK(BM_NothingDue);

void BM_FactsAfterAnHour(benchmark::State& state) {
  const Job job;
  Sampler sampler = make_sampler(job);
  uint64_t now = monotonic_ns();
  for (int i = 0; i < 300; ++i) sampler.sample(now += 12 * kSecond);
  for (auto _ : state) benchmark::DoNotOptimize(sampler.facts());
}
BENCHMARK(BM_FactsAfterAnHour)->Unit(benchmark::kMicrosecond)->Iterations(50);

}  // namespace
}  // namespace stepscope
