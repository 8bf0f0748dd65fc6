// Two clocks: the GPU's, read as differences between events, and CLOCK_MONOTONIC of the host.
//
// GpuAxis gives every event an absolute time in GPU nanoseconds. The driver only tells the distance of two events, as a
// float of milliseconds: 0.24 us of resolution after 4 s, 0.25 ms after an hour. So the reference event moves along: an
// event that lies more than kRebaseNs after it becomes the next reference, at the time that was found for it.
//
// GpuClock maps that axis to the host's clock. A calibration is a bracket: an event that was recorded at host time lo
// or later and seen complete at hi. The rate is taken over the last few calibrations, where they are narrow enough to
// tell it: free-running GPU clocks drift by tens of ppm against a disciplined host clock, a millisecond per minute.
//
// Plain single-threaded objects (the poller's). No system call, no allocation, no failure.
#pragma once

#include <cstdint>

namespace stepscope::recorder {

class GpuAxis {
 public:
  static constexpr int64_t kRebaseNs = 4'000'000'000;

  // Absolute time of an event that lies `elapsed_ms` after the reference (negative: before).
  int64_t at(float elapsed_ms) const noexcept {
    return reference_ns_ + static_cast<int64_t>(static_cast<double>(elapsed_ms) * 1e6);
  }
  bool wants_rebase(int64_t event_ns) const noexcept { return event_ns - reference_ns_ > kRebaseNs; }
  void rebase(int64_t event_ns) noexcept { reference_ns_ = event_ns; }

 private:
  int64_t reference_ns_ = 0;
};

class GpuClock {
 public:
  static constexpr int kKept = 8;

  // False (and nothing changes) when the bracket is too wide to be of use beside what is known already.
  bool calibrate(int64_t gpu_ns, uint64_t host_lo_ns, uint64_t host_hi_ns) noexcept;

  bool ready() const noexcept { return count_ > 0; }
  uint64_t to_host(int64_t gpu_ns) const noexcept;
  uint64_t half_bracket_ns() const noexcept { return ready() ? newest().half_ns : 0; }
  double drift_ppm() const noexcept { return slope_ * 1e6; }

 private:
  struct Point {
    int64_t gpu_ns;
    uint64_t host_ns, half_ns;
  };
  const Point& newest() const noexcept { return points_[(count_ - 1) % kKept]; }
  void fit() noexcept;

  Point points_[kKept] = {};
  uint64_t count_ = 0;
  double slope_ = 0;  // host ns per GPU ns, minus one
};

}  // namespace stepscope::recorder
