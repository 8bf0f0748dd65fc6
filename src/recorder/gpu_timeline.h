// Device time of phase boundaries and kernel launches: events on the training's own streams, resolved later.
//
//   training thread          NCCL's launching thread            poller thread (gpu_poller.h)
//   gpu_mark() ──────┐       gpu_event(), gpu_event(),           query oldest first ─▶ GPU time ─▶ host time
//                    ├─ event pool ─ gpu_submit_span() ─────────▶ Kind::GpuMark │ span callback (Kind::NcclTime)
//                    └─ full: counted as missing, nothing waits
//
// Life: off ─ gpu_arm() ─▶ armed ─ gpu_try_start() on a thread with a CUDA context ─▶ running ─ gpu_stop() ─▶ stopped.
// A stopped timeline stays stopped; a forked child is off for ever (CUDA does not survive fork either).
// Ownership: all state is static and never freed; events are left to the driver at exit.
// Threads: gpu_mark, gpu_event, gpu_submit_span, gpu_return_event from any thread. Cost: one cuStreamIsCapturing and
// one cuEventRecord, about 30 ns of our own. No allocation, no lock, no synchronisation with the GPU. Failure: nothing
// throws or blocks; kMaxErrors errors of the driver stop it with a reason.
#pragma once

#include <cstdint>

#include "blackbox/event_kind.h"
#include "blackbox/layout.h"
#include "recorder/cuda_api.h"
#include "recorder/gpu_slots.h"
#include "recorder/scalar.h"

namespace stepscope::recorder {

inline constexpr uint32_t kGpuSlots = 8192;  // at most in flight
inline constexpr uint32_t kGpuSlotsMarks =
    2048;  // made at the start; the rest where NCCL's plugin is asked to time every step
inline constexpr uint32_t kGpuMaxErrors = 16;

enum class GpuState : int { kOff, kArmed, kStarting, kRunning, kStopped };

// Allows the start. False with a reason when STEPSCOPE_GPU=0. Idempotent.
bool gpu_arm() noexcept;

// Starts when armed and the calling thread has a current CUDA context and is not capturing; else does nothing. Makes
// the events (a few ms, once) and the poller. True when running afterwards.
bool gpu_try_start() noexcept;

// Makes further events, up to `total`, on a thread whose context is that of the timeline. Not for callbacks.
void gpu_reserve(uint32_t total) noexcept;

// Ends recording; the poller gets up to `drain_ms` to resolve what the GPU has finished, then ends. Called before the
// interpreter exits and by an exit handler. `why` is static text.
void gpu_stop(const char* why, int drain_ms = 50) noexcept;

GpuState gpu_state() noexcept;
inline bool gpu_running() noexcept { return gpu_state() == GpuState::kRunning; }
const char* gpu_reason() noexcept;  // why it is off or stopped, "" else; static storage
CuDevice gpu_device() noexcept;     // -1 before the start

// One boundary on `stream`. `host_ns` 0 = now. False when nothing was recorded (off, pool empty, capturing, error).
bool gpu_mark(Kind kind, Edge edge, uint64_t id, CuStream stream, uint64_t host_ns = 0) noexcept;

// True while `stream` is being captured into a graph (or the answer is that it must not be touched).
bool gpu_capturing(CuStream stream) noexcept;

// Records an event on `stream`; the slot is the caller's until it is submitted or returned. kNoSlot when there is none.
uint32_t gpu_event(CuStream stream) noexcept;
void gpu_return_event(uint32_t slot) noexcept;

// Copies the number at `address` of the device to the host when `stream` comes to it; the poller then writes it as a
// Scalar of `host_ns`. Nothing waits. False when nothing was recorded, as for gpu_mark().
bool gpu_scalar(uint64_t address, ScalarFormat format, ScalarOf what, CuStream stream, uint64_t host_ns) noexcept;

// Hands a span to the poller: `begin` may be kNoSlot (only the end is known). The handler gets `cookie` and host times.
// Both slots belong to the timeline afterwards, whatever happens.
void gpu_submit_span(uint32_t begin, uint32_t end, CuStream stream, uint64_t cookie) noexcept;
using GpuSpanHandler = void (*)(uint64_t cookie, uint64_t begin_ns, uint64_t end_ns);
void gpu_set_span_handler(GpuSpanHandler handler) noexcept;

struct GpuCounts {
  uint64_t marked = 0, resolved = 0, missing = 0, captured = 0, errors = 0;
  int last_error = 0;
  uint32_t events = 0;      // made so far
  uint64_t bracket_ns = 0;  // half width of the newest calibration
};
GpuCounts gpu_counts() noexcept;

}  // namespace stepscope::recorder
