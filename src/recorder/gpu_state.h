// The state shared by gpu_timeline.cc (records) and gpu_poller.cc (resolves). Private to these two and their tests.
#pragma once

#include <atomic>

#include "recorder/gpu_timeline.h"

namespace stepscope::recorder {

enum class SlotUse : uint8_t { kMark, kSpanEnd, kScalar };

// Fields belong to whoever holds the slot: the thread that popped it, then the poller.
struct EventSlot {
  CuEvent event = nullptr;
  CuStream stream = nullptr;
  uint64_t host_ns = 0;
  uint64_t id = 0;  // of the mark, the cookie of a span, or ScalarOf
  uint32_t begin = kNoSlot;
  uint16_t packed = 0;  // kind and edge of the mark, or ScalarFormat
  SlotUse use = SlotUse::kMark;
};

// Made at the start and kept for ever: a process without CUDA does not pay for them.
struct GpuPool {
  FreeList<kGpuSlots> free;
  PendingQueue<kGpuSlots> pending;
  EventSlot slots[kGpuSlots];
};

struct GpuShared {
  std::atomic<GpuState> state{GpuState::kOff};
  std::atomic<const char*> reason{"not armed"};
  // Set before kRunning, never changed.
  const CudaApi* api = nullptr;
  CuContext context = nullptr;
  GpuPool* pool = nullptr;
  uint64_t* scalars = nullptr;  // one per slot, in memory that the device writes to; null = there is none

  std::atomic<CuDevice> device{-1};
  std::atomic<uint32_t> events{0};
  std::atomic<GpuSpanHandler> span_handler{nullptr};

  std::atomic<uint64_t> marked{0}, resolved{0}, missing{0}, captured{0}, errors{0}, bracket_ns{0};
  std::atomic<int> last_error{0};

  // The poller's end.
  std::atomic<bool> stop{false};
  std::atomic<int> drain_ms{0};
  std::atomic<bool> finished{true};
};
extern constinit GpuShared g_gpu;

// Counts a driver error; the poller stops everything when there are too many.
void gpu_count_error(CuResult code) noexcept;

// Writes one device record into the black box (or to the sink of a test).
void gpu_write(uint64_t time_ns, Kind kind, Edge edge, uint64_t a, uint64_t b, uint64_t c, uint64_t d,
               uint16_t flags) noexcept;
using GpuSink = void (*)(const blackbox::Record&);
void gpu_set_sink_for_test(GpuSink sink) noexcept;
bool gpu_has_sink() noexcept;
bool gpu_has_reader() noexcept;  // a black box or a sink

// True when the calling thread's CUDA context is the one whose events we hold.
bool gpu_context_is_ours() noexcept;

// Starts the thread; false when the system refuses. gpu_poller_end() wakes it and waits at most `wait_ms`.
bool gpu_poller_start() noexcept;
void gpu_poller_end(int wait_ms) noexcept;

// Back to "off", for tests: the poller must have ended.
void gpu_reset_for_test() noexcept;

}  // namespace stepscope::recorder
