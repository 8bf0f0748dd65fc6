#include "recorder/gpu_timeline.h"

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <set>
#include <string>

#include "base/clock.h"
#include "recorder/gpu_state.h"
#include "recorder/recorder.h"

namespace stepscope::recorder {

constinit GpuShared g_gpu;

namespace {

std::atomic<GpuSink> g_sink{nullptr};

// Reasons are read by other threads for as long as the process lives. One caller at a time (the state is kStarting).
const char* keep(const std::string& text) {
  static auto* kept = new std::set<std::string>;
  return kept->insert(text).first->c_str();
}

bool switched_off(const char* variable) {
  const char* value = std::getenv(variable);
  return value && (std::strcmp(value, "0") == 0 || std::strcmp(value, "off") == 0);
}

void fork_child() noexcept {
  g_gpu.state.store(GpuState::kStopped);
  g_gpu.reason.store("forked child");
  g_gpu.finished.store(true);  // there is no such thread here
}

void exit_handler() { gpu_stop("process exit", 20); }

// A capture in the global mode forbids other calls on its thread; event creation is not worth breaking one.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const CudaApi& api) : api_(api) { api_.exchange_capture_mode(&mode_); }
  ~RelaxedCapture() { api_.exchange_capture_mode(&mode_); }

 private:
  const CudaApi& api_;
  int mode_ = kCuCaptureModeRelaxed;
};

void make_events(uint32_t total) noexcept {
  if (total > kGpuSlots) total = kGpuSlots;
  RelaxedCapture relaxed(*g_gpu.api);
  for (uint32_t i = g_gpu.events.load(); i < total; ++i) {
    if (const CuResult rc = g_gpu.api->event_create(&g_gpu.pool->slots[i].event, 0); rc != kCuSuccess) {
      gpu_count_error(rc);
      return;
    }
    g_gpu.pool->free.push(i);
    g_gpu.events.store(i + 1);
  }
}

void make_scalars() noexcept {
  void* memory = nullptr;
  if (g_gpu.scalars || !g_gpu.api->host_alloc || !g_gpu.api->copy_to_host) return;
  RelaxedCapture relaxed(*g_gpu.api);
  if (g_gpu.api->host_alloc(&memory, kGpuSlots * sizeof(uint64_t), kCuHostPortable) == kCuSuccess)
    g_gpu.scalars = static_cast<uint64_t*>(memory);
}

bool start_here(std::string& reason) {
  const CudaApi* api = find_cuda_api(reason);
  if (!api) return false;
  CuContext context = nullptr;
  CuDevice device = -1;
  int status = kCuCaptureNone;
  if (api->context_get(&context) != kCuSuccess || !context) return reason = "no CUDA context on this thread", false;
  if (api->context_device(&device) != kCuSuccess) return reason = "the CUDA context has no device", false;
  if (api->stream_is_capturing(nullptr, &status) != kCuSuccess || status != kCuCaptureNone)
    return reason = "a graph is being captured", false;
  g_gpu.api = api;
  g_gpu.context = context;
  if (!g_gpu.pool) g_gpu.pool = new (std::nothrow) GpuPool;
  if (!g_gpu.pool) return reason = "no memory for the event pool", false;
  g_gpu.device.store(device);
  make_events(kGpuSlotsMarks);
  make_scalars();
  if (g_gpu.events.load() < 64) return reason = "cuEventCreate failed", false;
  return gpu_poller_start() || (reason = "no thread for the GPU poller", false);
}

}  // namespace

void gpu_count_error(CuResult code) noexcept {
  g_gpu.last_error.store(code, std::memory_order_relaxed);
  g_gpu.errors.fetch_add(1, std::memory_order_relaxed);
}

void gpu_write(uint64_t time_ns, Kind kind, Edge edge, uint64_t a, uint64_t b, uint64_t c, uint64_t d,
               uint16_t flags) noexcept {
  if (GpuSink sink = g_sink.load(std::memory_order_relaxed)) [[unlikely]]
    return sink({.time_ns = time_ns, .kind = pack_kind(kind, edge), .flags = flags, .a = a, .b = b, .c = c, .d = d});
  mark_at(time_ns, kind, edge, a, b, c, d, flags);
}

void gpu_set_sink_for_test(GpuSink sink) noexcept { g_sink.store(sink); }
bool gpu_has_sink() noexcept { return g_sink.load() != nullptr; }
bool gpu_has_reader() noexcept { return gpu_has_sink() || active(); }

bool gpu_context_is_ours() noexcept {
  CuContext context = nullptr;
  return gpu_running() && g_gpu.api->context_get(&context) == kCuSuccess && context == g_gpu.context;
}

bool gpu_arm() noexcept {
  if (switched_off("STEPSCOPE_GPU")) {
    g_gpu.reason.store("switched off by STEPSCOPE_GPU");
    return false;
  }
  GpuState expected = GpuState::kOff;
  if (g_gpu.state.compare_exchange_strong(expected, GpuState::kArmed)) {
    g_gpu.reason.store("CUDA is not in use yet");
    static std::once_flag once;
    std::call_once(once, [] { ::pthread_atfork(nullptr, nullptr, fork_child); });
  }
  return g_gpu.state.load() != GpuState::kStopped;
}

namespace {

// The state is kStarting.
bool start() {
  std::string reason;
  if (start_here(reason)) {
    g_gpu.reason.store("");
    g_gpu.state.store(GpuState::kRunning, std::memory_order_release);
    // Registered after the driver's own handler, so it runs before it.
    static std::once_flag once;
    std::call_once(once, [] { std::atexit(exit_handler); });
    return true;
  }
  const bool made_events = g_gpu.events.load() > 0;
  g_gpu.reason.store(keep(reason));
  g_gpu.state.store(made_events ? GpuState::kStopped : GpuState::kArmed);
  if (made_events) name(NameKind::kUnavailable, 0, "gpu_time: " + reason);
  return false;
}

}  // namespace

bool gpu_try_start() noexcept {
  GpuState state = GpuState::kArmed;
  if (!g_gpu.state.compare_exchange_strong(state, GpuState::kStarting)) return state == GpuState::kRunning;
  try {
    return start();
  } catch (...) {
    g_gpu.reason.store("no memory to start");
    if (g_gpu.state.load() == GpuState::kStarting)
      g_gpu.state.store(g_gpu.events.load() > 0 ? GpuState::kStopped : GpuState::kArmed);
    return gpu_running();
  }
}

void gpu_reserve(uint32_t total) noexcept {
  static std::atomic<bool> busy{false};
  if (!gpu_running() || busy.exchange(true)) return;
  if (gpu_context_is_ours()) make_events(total);
  busy.store(false);
}

void gpu_stop(const char* why, int drain_ms) noexcept {
  GpuState state = g_gpu.state.load();
  do {
    if (state == GpuState::kStopped || state == GpuState::kStarting) break;
  } while (!g_gpu.state.compare_exchange_weak(state, GpuState::kStopped));
  if (state != GpuState::kStopped && state != GpuState::kStarting) g_gpu.reason.store(why);
  g_gpu.drain_ms.store(drain_ms);
  gpu_poller_end(drain_ms + 200);
}

GpuState gpu_state() noexcept { return g_gpu.state.load(std::memory_order_acquire); }
const char* gpu_reason() noexcept { return g_gpu.reason.load(); }
CuDevice gpu_device() noexcept { return g_gpu.device.load(std::memory_order_relaxed); }
void gpu_set_span_handler(GpuSpanHandler handler) noexcept { g_gpu.span_handler.store(handler); }

GpuCounts gpu_counts() noexcept {
  return {.marked = g_gpu.marked.load(),
          .resolved = g_gpu.resolved.load(),
          .missing = g_gpu.missing.load(),
          .captured = g_gpu.captured.load(),
          .errors = g_gpu.errors.load(),
          .last_error = g_gpu.last_error.load(),
          .events = g_gpu.events.load(),
          .bracket_ns = g_gpu.bracket_ns.load()};
}

}  // namespace stepscope::recorder
