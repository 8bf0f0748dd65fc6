// The only thread of ours inside a rank: turns completed events into times. Native, never takes the GIL, never
// synchronises with the GPU, touches no stream of the training.
//
// It binds the training's own context (a thread without one would make the driver create another) and relaxes its
// capture mode first: an event query from a thread in the global mode would invalidate a capture elsewhere.
// Queries go oldest first and at most once per stream and pass: behind an event that is not reached, none is.
// Sleep: 1 ms while events complete, up to 5 ms while they do not, 20 ms when nothing was marked for a second.
// Ends by itself after kGpuMaxErrors driver errors, when the driver shuts down, or when the agent says stop.
#pragma once

#include <array>
#include <cstdint>

#include "recorder/gpu_clock.h"
#include "recorder/gpu_state.h"

namespace stepscope::recorder {

class GpuPoller {
 public:
  explicit GpuPoller(GpuShared& shared) : shared_(shared) {}

  // The thread's body: until told to stop.
  void run() noexcept;

  // The pieces of run(), for tests that drive time themselves.
  bool begin() noexcept;      // binds the context, makes its own stream
  uint32_t pass() noexcept;   // resolves what is complete; returns how many
  void calibrate() noexcept;  // brackets the clocks with events on its own stream
  void write_status(bool last = false) noexcept;
  const GpuClock& clock() const noexcept { return clock_; }
  uint32_t waiting() const noexcept { return backlog_count_; }

 private:
  bool too_many_errors() noexcept;
  void take_pending() noexcept;
  bool resolve(uint32_t slot) noexcept;
  bool gpu_time(uint32_t slot, int64_t& gpu_ns) noexcept;
  void resolve_mark(const EventSlot& slot, int64_t gpu_ns) noexcept;
  void resolve_span(const EventSlot& slot, int64_t end_ns) noexcept;
  void resolve_scalar(uint32_t index) noexcept;
  void release(uint32_t slot) noexcept;
  void calibrate_from(const EventSlot& slot, int64_t gpu_ns) noexcept;
  bool probe(uint32_t slot, uint64_t& lo_ns, uint64_t& hi_ns) noexcept;
  void idle(int ms) noexcept;
  void drain() noexcept;

  GpuShared& shared_;
  GpuAxis axis_;
  GpuClock clock_;
  CuStream own_stream_ = nullptr;
  uint32_t reference_ = kNoSlot;  // the axis' reference event
  std::array<uint32_t, kGpuSlots> backlog_;
  uint32_t backlog_count_ = 0;
  uint64_t next_calibration_ns_ = 0;
  uint64_t next_status_ns_ = 0;
  uint32_t calibrations_ = 0, failed_calibrations_ = 0;
  uint64_t reported_trouble_ = 0;
};

}  // namespace stepscope::recorder
