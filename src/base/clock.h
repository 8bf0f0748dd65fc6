// Clocks. Everything stepscope records is CLOCK_MONOTONIC in ns; wall-clock time appears only in names and reports.
#pragma once

#include <cstdint>
#include <ctime>

namespace stepscope {

inline constexpr uint64_t kSecondNs = 1'000'000'000;

inline uint64_t clock_ns(clockid_t id) {
  timespec ts;
  clock_gettime(id, &ts);
  return static_cast<uint64_t>(ts.tv_sec) * kSecondNs + static_cast<uint64_t>(ts.tv_nsec);
}
inline uint64_t monotonic_ns() { return clock_ns(CLOCK_MONOTONIC); }
inline uint64_t realtime_ns() { return clock_ns(CLOCK_REALTIME); }

inline constexpr double ns_to_ms(int64_t ns) { return static_cast<double>(ns) * 1e-6; }

}  // namespace stepscope
