// ns per put (1, 2, 4 threads), per name, and the reader's throughput.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include "blackbox/ring_reader.h"
#include "blackbox/ring_writer.h"

namespace stepscope::blackbox {
namespace {

std::string ring_file() { return "/dev/shm/ss-bench-" + std::to_string(::getpid()) + ".ring"; }

RingWriter& shared_ring() {
  static auto* writer = [] {
    auto created = RingWriter::create(ring_file());
    ::unlink(ring_file().c_str());
    return created->release();
  }();
  return *writer;
}

void BM_Put(benchmark::State& state) {
  RingWriter& ring = shared_ring();
  Record r{.time_ns = 1, .kind = 4, .flags = 0, .thread = 7, .a = 1, .b = 2, .c = 3, .d = 4};
  for (auto _ : state) {
    r.b++;
    ring.put(r);
  }
}
BENCHMARK(BM_Put)->ThreadRange(1, 4)->UseRealTime();

void BM_Create(benchmark::State& state) {
  for (auto _ : state) {
    auto writer = RingWriter::create(ring_file());
    benchmark::DoNotOptimize(writer->get());
    state.PauseTiming();
    ::unlink(ring_file().c_str());
    writer->reset();
    state.ResumeTiming();
  }
}
BENCHMARK(BM_Create)->Unit(benchmark::kMicrosecond);

// One pass over `range` new records.
void BM_Read(benchmark::State& state) {
  auto writer = *RingWriter::create(ring_file());
  auto reader = *RingReader::open(ring_file());
  ::unlink(ring_file().c_str());
  const auto count = static_cast<uint64_t>(state.range(0));
  std::vector<Record> out;
  for (auto _ : state) {
    state.PauseTiming();
    for (uint64_t i = 0; i < count; ++i) writer->put({.b = i});
    out.clear();
    state.ResumeTiming();
    reader.read(out, 1 << 20, 1);
    if (out.size() != count) state.SkipWithError("records are missing");
  }
  state.SetItemsProcessed(static_cast<int64_t>(count) * state.iterations());
}
BENCHMARK(BM_Read)->Arg(1)->Arg(100)->Arg(1000)->Arg(64 * 1024);

void BM_ReadNothingNew(benchmark::State& state) {
  auto writer = *RingWriter::create(ring_file());
  auto reader = *RingReader::open(ring_file());
  ::unlink(ring_file().c_str());
  std::vector<Record> out;
  for (auto _ : state) reader.read(out, 1 << 20, 1);
}
BENCHMARK(BM_ReadNothingNew);

}  // namespace
}  // namespace stepscope::blackbox
