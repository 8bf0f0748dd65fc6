// Our own share of the device side's cost: the driver is a function that does nothing, so what is left is ours.
#include <benchmark/benchmark.h>

#include <thread>

#include "base/clock.h"
#include "recorder/gpu_state.h"
#include "recorder/nccl_abi.h"
#include "recorder/nccl_plugin.h"

extern "C" {
extern stepscope::recorder::nccl::TableV4 ncclProfiler_v4;
extern stepscope::recorder::nccl::TableV5 ncclProfiler_v5;
}

namespace stepscope::recorder {
namespace {

int g_event;
const CudaApi kEmptyDriver = {
    .event_create = [](CuEvent* e, unsigned) { return *e = &g_event, 0; },
    .event_destroy = [](CuEvent) { return 0; },
    .event_record = [](CuEvent, CuStream) { return 0; },
    .event_query = [](CuEvent) { return 0; },
    .event_elapsed = [](float* ms, CuEvent, CuEvent) { return *ms = 0, 0; },
    .stream_is_capturing = [](CuStream, int* s) { return *s = 0, 0; },
    .stream_create = [](CuStream* s, unsigned) { return *s = &g_event, 0; },
    .stream_destroy = [](CuStream) { return 0; },
    .exchange_capture_mode = [](int*) { return 0; },
    .context_get = [](CuContext* c) { return *c = &g_event, 0; },
    .context_set = [](CuContext) { return 0; },
    .context_device = [](CuDevice* d) { return *d = 0, 0; },
    .primary_state = [](CuDevice, unsigned*, int* a) { return *a = 1, 0; },
};

void start() {
  static const bool done = [] {
    inject_cuda_api(&kEmptyDriver);
    gpu_set_sink_for_test([](const blackbox::Record&) {});
    gpu_arm();
    gpu_try_start();
    gpu_reserve(kGpuSlots);
    return true;
  }();
  benchmark::DoNotOptimize(done);
}

// Bursts that the pool holds, as in a training step; the poller empties it between them.
template <class F>
void in_bursts(benchmark::State& state, uint32_t burst, F&& body) {
  while (state.KeepRunningBatch(burst)) {
    for (uint32_t i = 0; i < burst; ++i) body();
    state.PauseTiming();
    std::this_thread::sleep_for(std::chrono::milliseconds(8));
    state.ResumeTiming();
  }
}

void BM_GpuMarkOff(benchmark::State& state) {
  const auto mark = [] { return gpu_running() && gpu_mark(Kind::kForward, Edge::kBegin, 1, nullptr); };
  for (auto _ : state) benchmark::DoNotOptimize(mark());
}
BENCHMARK(BM_GpuMarkOff);

void BM_GpuMark(benchmark::State& state) {
  start();
  in_bursts(state, 1000, [] { gpu_mark(Kind::kForward, Edge::kBegin, 1, nullptr); });
  state.counters["missing"] = static_cast<double>(gpu_counts().missing);
}
BENCHMARK(BM_GpuMark)->Iterations(100'000);

// One all-reduce through all callbacks of NCCL 2.28, with both events.
void BM_NcclOperationV5(benchmark::State& state) {
  using namespace nccl;
  start();
  void* context = nullptr;
  int mask = 0;
  ncclProfiler_v5.init(&context, 1, &mask, "dp", 1, 2, 0, nullptr);
  uint64_t sequence = 0;
  in_bursts(state, 500, [&] {
    void *call = nullptr, *launch = nullptr, *group = nullptr, *coll = nullptr;
    DescriptorV5 d{};
    d.type = kCollApi;
    d.coll_api = {"AllReduce", 1000, "ncclFloat32", 0, nullptr, false};
    ncclProfiler_v5.start_event(context, &call, &d);
    ncclProfiler_v5.stop_event(call);
    d = {};
    d.type = kKernelLaunch;
    ncclProfiler_v5.start_event(context, &launch, &d);
    ncclProfiler_v5.stop_event(launch);
    d = {};
    d.type = kGroup;
    ncclProfiler_v5.start_event(context, &group, &d);
    d.type = kColl;
    d.parent = call;
    d.coll = {sequence++, "AllReduce", nullptr, nullptr, 1000, 0, "ncclFloat32", 16, 16, "RING", "LL128", group};
    ncclProfiler_v5.start_event(context, &coll, &d);
    ncclProfiler_v5.stop_event(coll);
    ncclProfiler_v5.stop_event(group);
  });
  ncclProfiler_v5.finalize(context);
  state.counters["stride"] = static_cast<double>(Plugin::instance().counts().stride);
}
BENCHMARK(BM_NcclOperationV5)->Iterations(50'000);

void BM_NcclOperationV4(benchmark::State& state) {
  using namespace nccl;
  start();
  void* context = nullptr;
  int mask = 0;
  ncclProfiler_v4.init(&context, &mask, "dp", 2, 1, 2, 0, nullptr);
  uint64_t sequence = 0;
  for (auto _ : state) {
    void *group = nullptr, *coll = nullptr;
    DescriptorV4 d{};
    d.type = kGroup;
    ncclProfiler_v4.start_event(context, &group, &d);
    d.type = kColl;
    d.parent = group;
    d.coll = {sequence++, "AllReduce", nullptr, nullptr, 1000, 0, "ncclFloat32", 16, 16, "RING", "LL128"};
    ncclProfiler_v4.start_event(context, &coll, &d);
    ncclProfiler_v4.stop_event(coll);
    ncclProfiler_v4.stop_event(group);
  }
  ncclProfiler_v4.finalize(context);
}
BENCHMARK(BM_NcclOperationV4);

}  // namespace
}  // namespace stepscope::recorder
