// Throughput of the reader side between ring and run file, in rank-steps per second: records into steps (StepBuilder),
// steps into judged rows (Engine: alignment, attribution, rules), and both as the agent runs them.
#include <benchmark/benchmark.h>

#include <vector>

#include "../../tests/support/scenario_play.h"

namespace stepscope {
namespace {

constexpr uint32_t kBuckets = 6;

// The records of a DDP rank, 22 per step: fetch, forward, backward with its collectives and their ends, optimizer,
// usage.
class Records {
 public:
  Records(int rank, int world)
      : thread_(1000 + static_cast<uint32_t>(rank)), late_ns_(rank == world - 1 ? 4'000'000 : 0) {}

  void step(std::vector<Event>& out) {
    span(out, Kind::kFetch, 300'000, 5);
    span(out, Kind::kForward, 8'000'000, 9);
    mark(out, Kind::kBackward, Edge::kBegin, 1);
    for (uint32_t k = 0; k < kBuckets; ++k) {
      t_ += 3'000'000 + late_ns_ / kBuckets;
      mark(out, Kind::kCollective, Edge::kMark, 77, sequence_ + k, 4 << 20,
           static_cast<uint64_t>(CollectiveOp::kAllReduce));
    }
    mark(out, Kind::kBackwardOwn, Edge::kMark);
    t_ += 5'000'000 - late_ns_;
    for (uint32_t k = 0; k < kBuckets; ++k) mark(out, Kind::kCollectiveDone, Edge::kMark, 77, sequence_ + k, 0, 1);
    sequence_ += kBuckets;
    mark(out, Kind::kBackward, Edge::kEnd, 1);
    span(out, Kind::kOptimizer, 2'000'000, 3);
    cpu_ns_ += 30'000'000;
    mark(out, Kind::kUsage, Edge::kMark, cpu_ns_);
  }

 private:
  void mark(std::vector<Event>& out, Kind kind, Edge edge, uint64_t a = 0, uint64_t b = 0, uint64_t c = 0,
            uint64_t d = 0) {
    out.push_back({t_, pack_kind(kind, edge), 0, thread_, a, b, c, d});
  }
  void span(std::vector<Event>& out, Kind kind, uint64_t ns, uint64_t id) {
    mark(out, kind, Edge::kBegin, id);
    t_ += ns;
    mark(out, kind, Edge::kEnd, id);
  }
  uint32_t thread_;
  uint64_t late_ns_, t_ = 1'000'000'000, sequence_ = 0, cpu_ns_ = 0;
};

constexpr int kSteps = 2000;

std::vector<std::vector<Event>> records_of(int ranks, int steps) {
  std::vector<std::vector<Event>> out(static_cast<size_t>(ranks));
  for (int r = 0; r < ranks; ++r) {
    Records rank(r, ranks);
    for (int i = 0; i < steps; ++i) rank.step(out[static_cast<size_t>(r)]);
  }
  return out;
}

void count(benchmark::State& state, int ranks, int steps) {
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()) * ranks * steps);
  state.SetLabel("items = rank-steps");
}

void BM_StepBuilder(benchmark::State& state) {
  const auto records = records_of(1, kSteps);
  size_t steps = 0;
  for (auto _ : state) {
    StepBuilder builder;
    for (size_t i = 0; i < records[0].size(); ++i) {
      builder.push(records[0][i]);
      if (i % 256 == 0) steps += builder.take_completed().size();
    }
    benchmark::DoNotOptimize(steps);
  }
  if (steps == 0) state.SkipWithError("no steps");
  count(state, 1, kSteps);
  state.counters["records/s"] = benchmark::Counter(
      static_cast<double>(state.iterations()) * static_cast<double>(records[0].size()), benchmark::Counter::kIsRate);
}
BENCHMARK(BM_StepBuilder)->Unit(benchmark::kMillisecond);

// Ring records to judged rows, as the agent does: a batch per rank in turn.
void BM_Pipeline(benchmark::State& state) {
  const int ranks = static_cast<int>(state.range(0)), steps = std::max(64, 16'000 / ranks);
  const auto records = records_of(ranks, steps);
  const size_t per_step = records[0].size() / static_cast<size_t>(steps);
  std::vector<int> members;
  for (int r = 0; r < ranks; ++r) members.push_back(r);
  for (auto _ : state) {
    EngineOptions options;
    options.world_size = ranks;
    Engine engine(options);
    engine.set_group(77, "default_pg", members);
    std::vector<StepBuilder> builders(static_cast<size_t>(ranks));
    for (size_t at = 0; at < records[0].size(); at += 4 * per_step)
      for (int r = 0; r < ranks; ++r) {
        StepBuilder& builder = builders[static_cast<size_t>(r)];
        for (size_t i = at; i < std::min(at + 4 * per_step, records[0].size()); ++i)
          builder.push(records[static_cast<size_t>(r)][i]);
        for (RankStep& step : builder.take_completed()) engine.feed(r, std::move(step));
      }
    engine.finish();
    const Snapshot snapshot = engine.snapshot();
    if (ranks > 1 && (snapshot.findings.empty() || snapshot.findings[0].kind != FindingKind::kComputeStraggler))
      state.SkipWithError("no straggler is found");
  }
  count(state, ranks, steps);
}
BENCHMARK(BM_Pipeline)->Arg(1)->Arg(8)->Arg(64)->Arg(512)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace stepscope
