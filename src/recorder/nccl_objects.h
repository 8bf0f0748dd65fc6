// What the plugin remembers: live events and communicators, named by integers that NCCL carries as its opaque pointers.
//
// Events lie in a ring: the n-th event takes slot n mod kEvents and its handle is n. Nothing is ever freed, so nothing
// leaks when NCCL forgets a stop; a handle whose slot was taken again is stale and is refused. NCCL hands out stale
// handles as parents (2.28 to 2.30 keep the API handle of the previous call), so every use checks.
//
// Threads: any. All fields are relaxed atomics, published by `number`; no lock, no allocation. A slot that is taken
// again while another thread still reads it (8192 events later) gives a wrong number at worst, never a wild access.
#pragma once

#include <atomic>
#include <cstdint>

#include "recorder/gpu_slots.h"

namespace stepscope::recorder::nccl {

inline constexpr uint32_t kEvents = 8192;
inline constexpr uint32_t kComms = 256;
inline constexpr uint32_t kMaxPeers = 4096;

template <class T>
class Cell {  // a relaxed atomic without the noise
 public:
  constexpr Cell(T value = T()) noexcept : value_(value) {}
  operator T() const noexcept { return value_.load(std::memory_order_relaxed); }
  T operator=(T value) noexcept { return value_.store(value, std::memory_order_relaxed), value; }
  T swap(T value) noexcept { return value_.exchange(value, std::memory_order_acq_rel); }
  T add(T value) noexcept { return value_.fetch_add(value, std::memory_order_acq_rel); }
  T get() const noexcept { return *this; }
  // Towards the least (0 = none yet) or the greatest value seen.
  void least(T value) noexcept {
    T now = *this;
    while ((now == T() || value < now) && !value_.compare_exchange_weak(now, value, std::memory_order_relaxed)) {}
  }
  void most(T value) noexcept {
    T now = *this;
    while (value > now && !value_.compare_exchange_weak(now, value, std::memory_order_relaxed)) {}
  }

 private:
  std::atomic<T> value_;
};

using Handle = uint64_t;  // 0 = none

struct Event {
  std::atomic<Handle> number{0};
  Cell<uint64_t> type;     // event type of the ABI
  Cell<uint64_t> time_ns;  // host time of the start
  Cell<Handle> comm;
  Cell<uint64_t> hash;      // op: of its communicator, which may be gone when the GPU is done
  Cell<Handle> parent;      // KernelCh: the op
  Cell<Handle> next;        // op: the next op of the same launch
  Cell<uint64_t> key;       // op: sequence | peer << 40 | op << 56
  Cell<uint32_t> channels;  // op: kernel channels that will report
  Cell<uint32_t> channels_done;
  Cell<uint64_t> first_ns, last_ns;  // op: over its channels; KernelCh: its own. 0 = none
  Cell<bool> open;                   // started and not stopped
  Cell<bool> captured;
  Cell<void*> chain;  // handle of the chained plugin
};

class EventRing {
 public:
  Handle create(uint64_t type, Handle comm, uint64_t time_ns) noexcept;
  Event* find(Handle handle) noexcept;  // null when stale, zero or nonsense

 private:
  std::atomic<Handle> newest_{0};
  Event events_[kEvents];
};

// Point-to-point sequence numbers per peer and direction: NCCL has none.
struct PeerCounts {
  PeerCounts* older = nullptr;  // of the communicator that had this slot before: a late callback may still read it
  uint32_t peers = 0;
  std::atomic<uint32_t>* sends = nullptr;
  std::atomic<uint32_t>* recvs = nullptr;
};

struct Comm {
  std::atomic<Handle> number{0};  // 0 = free
  Cell<uint64_t> hash;
  Cell<int> rank, size, nodes, api;
  Cell<bool> announced;
  Cell<bool> events_allowed;  // false when this process drives several ranks of the communicator
  std::atomic<PeerCounts*> counts{nullptr};

  // The launch in progress: written by the one thread that drives this communicator.
  Cell<bool> launch_open;
  Cell<uint32_t> begin_slot{kNoSlot}, end_slot{kNoSlot};
  Cell<void*> stream;
  Cell<uint64_t> launch_ns;
  Cell<bool> launch_captured;
  Cell<bool> wants_end;  // the end of this launch gets an event
  Cell<Handle> first_op, last_op;
  Cell<uint32_t> launch_ops;
  Cell<uint64_t> launches;

  Cell<void*> chain;  // context of the chained plugin
};

class CommTable {
 public:
  Comm* create(uint64_t hash, int rank, int size, int nodes, int api) noexcept;  // may allocate; null when full
  Comm* find(Handle handle) noexcept;
  bool remove(Handle handle) noexcept;  // false when it was gone already
  uint32_t live() const noexcept;
  uint64_t next_peer_sequence(Comm& comm, int peer, bool send) noexcept;

  template <class F>
  void each(F&& f) noexcept {
    for (Comm& comm : comms_)
      if (comm.number.load(std::memory_order_acquire)) f(comm);
  }

 private:
  std::atomic<uint64_t> generation_{0};
  Comm comms_[kComms];
};

}  // namespace stepscope::recorder::nccl
