// Maps the GPU's global timer, as NCCL reports it for its kernels, to CLOCK_MONOTONIC.
//
// The proxy thread sees a channel's end some microseconds after it happened: host time minus timer, least over a block
// of two seconds, is the offset. The minimum of the running and the previous block is used, so drift is followed.
// Threads: any; relaxed atomics. Two threads that turn the block at once may lose one sample. No failure.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>

namespace stepscope::recorder::nccl {

class KernelClock {
 public:
  // `timer_ns` was seen complete at host time `now_ns`.
  void seen(uint64_t timer_ns, uint64_t now_ns) noexcept {
    uint64_t since = block_since_.load(std::memory_order_relaxed);
    if (now_ns - since > kBlockNs && block_since_.compare_exchange_strong(since, now_ns, std::memory_order_relaxed)) {
      previous_.store(current_.load(std::memory_order_relaxed), std::memory_order_relaxed);
      current_.store(kNone, std::memory_order_relaxed);
    }
    const auto offset = static_cast<int64_t>(now_ns - timer_ns);
    int64_t least = current_.load(std::memory_order_relaxed);
    while (offset < least && !current_.compare_exchange_weak(least, offset, std::memory_order_relaxed)) {}
  }

  uint64_t to_host(uint64_t timer_ns) const noexcept {
    const int64_t a = current_.load(std::memory_order_relaxed), b = previous_.load(std::memory_order_relaxed);
    const int64_t offset = a < b ? a : b;
    return offset == kNone ? 0 : timer_ns + static_cast<uint64_t>(offset);
  }

 private:
  static constexpr uint64_t kBlockNs = 2'000'000'000;
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  std::atomic<int64_t> current_{kNone}, previous_{kNone};
  std::atomic<uint64_t> block_since_{0};
};

}  // namespace stepscope::recorder::nccl
