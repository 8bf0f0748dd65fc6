// What one browser costs the server of a live run of 512 ranks × 10 steps/s: everything that the ranks page asks for in
// one second (events, page, newest steps, figures of the ranks). CPU time of an iteration in seconds = share of a core.
// With SS_SERVE_S=<seconds> it is served instead, for a look with a browser; the address is printed.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>

#include "base/clock.h"
#include "serve/api.h"
#include "serve/server.h"

namespace stepscope {
namespace {

constexpr int kRanks = 512;
constexpr uint64_t kStepsPerSecond = 10, kRecent = 512;

class LiveRun {
 public:
  LiveRun() {
    s_.run = {.name = "live", .started_at = "2026-01-01T00:00:00Z", .world_size = kRanks, .nodes = 64};
    s_.run.ranks_seen = kRanks, s_.run.status = "running";
    for (int r = 0; r < kRanks; ++r)
      s_.ranks.push_back({.rank = r, .node = r / 8, .hostname = "node-" + std::to_string(r / 8)});
    s_.job_ledger[index(Category::kForward)] = 30'000'000, s_.job_ledger[index(Category::kBackward)] = 60'000'000;
    for (uint64_t i = 0; i < kRecent / kStepsPerSecond; ++i) second();
  }

  void second() {
    for (uint64_t i = 0; i < kStepsPerSecond; ++i) {
      StepPoint point{.step = s_.steps++, .wall_ms = 100};
      for (int r = 0; r < kRanks; ++r) {
        const float own = static_cast<float>(90 + 3 * noise_(random_)) * (r == 77 && s_.steps > 100 ? 1.4f : 1.0f);
        point.rank_ms.push_back(own);
        point.wall_ms = std::max(point.wall_ms, double{own});
      }
      s_.recent.push_back(std::move(point));
    }
    while (s_.recent.size() > kRecent) s_.recent.erase(s_.recent.begin());
    s_.steps_analyzed = s_.steps;
    s_.wall_ms = {100, 101, 126, 101};
    for (RankStat& rank : s_.ranks) rank.steps = s_.steps, rank.step_ms = 100, rank.own_ms = 90;
  }
  std::shared_ptr<const Snapshot> snapshot() const { return std::make_shared<const Snapshot>(s_); }

 private:
  Snapshot s_;
  std::mt19937 random_{1};
  std::normal_distribution<double> noise_;
};

ShelfOptions shelf_of(LiveSlot& slot) {
  ShelfOptions shelf;
  shelf.live = &slot, shelf.live_name = "live";
  shelf.load = [](const std::string&) { return fail("no files"); };
  return shelf;
}

void serve(LiveRun& run, int seconds) {
  LiveSlot slot;
  ServerOptions options;
  options.token = "0123456789abcdef0123";
  options.shelf = shelf_of(slot);
  slot.put(run.snapshot());
  auto server = Server::start(options);
  if (!server) return;
  std::printf("%s\n", (*server)->url().c_str());
  std::fflush(stdout);
  for (int i = 0; i < seconds; ++i) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    run.second();
    slot.put(run.snapshot());
  }
}

void BM_OneSecondOfALiveRun(benchmark::State& state) {
  LiveRun run;
  if (const char* seconds = std::getenv("SS_SERVE_S")) serve(run, std::atoi(seconds));
  LiveSlot slot;
  Api api(shelf_of(slot));
  EventCursor cursor;
  for (auto _ : state) {
    state.PauseTiming();
    run.second();
    slot.put(run.snapshot());
    state.ResumeTiming();
    benchmark::DoNotOptimize(api.events("live", cursor, monotonic_ns()));
    for (const Route route : {Route::kPage, Route::kRanks, Route::kHeat})
      benchmark::DoNotOptimize(api.answer({.route = route, .run = "live", .bins = 2048}, ""));
  }
}
BENCHMARK(BM_OneSecondOfALiveRun)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace stepscope
