#include "recorder/gpu_clock.h"

#include <algorithm>
#include <cmath>

namespace stepscope::recorder {
namespace {

// Clocks that differ by more than this are not drifting: a calibration was wrong.
constexpr double kMaxSlope = 500e-6;
// A rate known worse than this is worth nothing.
constexpr double kMaxSlopeDoubt = 20e-6;

}  // namespace

bool GpuClock::calibrate(int64_t gpu_ns, uint64_t host_lo_ns, uint64_t host_hi_ns) noexcept {
  if (host_hi_ns < host_lo_ns) return false;
  const uint64_t half = (host_hi_ns - host_lo_ns) / 2;
  if (ready()) {
    // What the present mapping may be wrong by, by now: its own bracket and 1 ppm of unexplained drift since.
    const int64_t age = gpu_ns - newest().gpu_ns;
    const double doubt = static_cast<double>(newest().half_ns) + static_cast<double>(std::max<int64_t>(age, 0)) * 1e-6;
    if (age < 0 || static_cast<double>(half) > 4 * doubt + 20'000) return false;
  }
  points_[count_ % kKept] = {gpu_ns, host_lo_ns + half, half};
  ++count_;
  fit();
  return true;
}

void GpuClock::fit() noexcept {
  const Point& last = newest();
  double best_doubt = kMaxSlopeDoubt;
  for (uint64_t i = count_ > kKept ? count_ - kKept : 0; i + 1 < count_; ++i) {
    const Point& first = points_[i % kKept];
    const auto gpu = static_cast<double>(last.gpu_ns - first.gpu_ns);
    if (gpu <= 0) continue;
    const double doubt = static_cast<double>(first.half_ns + last.half_ns) / gpu;
    const double slope = (static_cast<double>(static_cast<int64_t>(last.host_ns - first.host_ns)) - gpu) / gpu;
    if (doubt >= best_doubt || std::fabs(slope) > kMaxSlope) continue;
    best_doubt = doubt;
    slope_ = slope;
  }
}

uint64_t GpuClock::to_host(int64_t gpu_ns) const noexcept {
  if (!ready()) return 0;
  const Point& p = newest();
  const int64_t since = gpu_ns - p.gpu_ns;
  return p.host_ns + static_cast<uint64_t>(since + static_cast<int64_t>(static_cast<double>(since) * slope_));
}

}  // namespace stepscope::recorder
