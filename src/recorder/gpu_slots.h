// Lock-free bookkeeping for the event pool: a free list of slot numbers and a queue of slots that wait to be resolved.
//
//   any thread   FreeList.pop() ─▶ slot ─ record event ─▶ PendingQueue.push()
//   poller       PendingQueue.pop() ─▶ resolve ─▶ FreeList.push()
//
// Threads: FreeList from any number of threads. PendingQueue: any number of producers, one consumer. Nothing blocks:
// an empty list or queue says so. Memory: fixed, inside the object. The objects are never destroyed while in use.
#pragma once

#include <atomic>
#include <cstdint>

namespace stepscope::recorder {

inline constexpr uint32_t kNoSlot = 0xffffffffu;

// A stack of the numbers 0..N-1. The head carries a counter, so that a slot that was popped and pushed back meanwhile
// is not mistaken for an unchanged head.
template <uint32_t N>
class FreeList {
 public:
  uint32_t pop() noexcept {
    uint64_t head = head_.load(std::memory_order_acquire);
    while (true) {
      const auto slot = static_cast<uint32_t>(head);
      if (slot == kNoSlot) return kNoSlot;
      const uint64_t next = next_[slot].load(std::memory_order_relaxed) | ((head >> 32) + 1) << 32;
      if (head_.compare_exchange_weak(head, next, std::memory_order_acq_rel, std::memory_order_acquire)) return slot;
    }
  }

  void push(uint32_t slot) noexcept {
    uint64_t head = head_.load(std::memory_order_relaxed);
    uint64_t fresh;
    do {
      next_[slot].store(static_cast<uint32_t>(head), std::memory_order_relaxed);
      fresh = slot | ((head >> 32) + 1) << 32;
    } while (!head_.compare_exchange_weak(head, fresh, std::memory_order_release, std::memory_order_relaxed));
  }

 private:
  std::atomic<uint64_t> head_{kNoSlot};
  std::atomic<uint32_t> next_[N] = {};
};

// A bounded queue in the order of push. N is a power of two and at least the number of slots in circulation, so that a
// push always finds room; a producer that was descheduled in the middle of a push only delays what came after it.
template <uint32_t N>
class PendingQueue {
  static_assert((N & (N - 1)) == 0);

 public:
  PendingQueue() noexcept {
    for (uint32_t i = 0; i < N; ++i) cells_[i].turn.store(i, std::memory_order_relaxed);
  }

  bool push(uint32_t slot) noexcept {
    uint64_t at = tail_.load(std::memory_order_relaxed);
    while (true) {
      Cell& cell = cells_[at & (N - 1)];
      const auto lead = static_cast<int64_t>(cell.turn.load(std::memory_order_acquire) - at);
      if (lead < 0) return false;
      if (lead > 0) {
        at = tail_.load(std::memory_order_relaxed);
      } else if (tail_.compare_exchange_weak(at, at + 1, std::memory_order_relaxed)) {
        cell.slot = slot;
        cell.turn.store(at + 1, std::memory_order_release);
        return true;
      }
    }
  }

  uint32_t pop() noexcept {  // consumer only
    Cell& cell = cells_[head_ & (N - 1)];
    if (cell.turn.load(std::memory_order_acquire) != head_ + 1) return kNoSlot;
    const uint32_t slot = cell.slot;
    cell.turn.store(head_ + N, std::memory_order_release);
    ++head_;
    return slot;
  }

 private:
  struct Cell {
    std::atomic<uint64_t> turn;
    uint32_t slot;
  };
  alignas(64) std::atomic<uint64_t> tail_{0};
  alignas(64) uint64_t head_ = 0;
  Cell cells_[N];
};

}  // namespace stepscope::recorder
