#include "recorder/nccl_objects.h"

#include <algorithm>
#include <new>

namespace stepscope::recorder::nccl {

Handle EventRing::create(uint64_t type, Handle comm, uint64_t time_ns) noexcept {
  const Handle number = newest_.fetch_add(1, std::memory_order_relaxed) + 1;
  Event& event = events_[number % kEvents];
  event.number.store(0, std::memory_order_relaxed);
  event.type = type;
  event.time_ns = time_ns;
  event.comm = comm;
  event.hash = 0;
  event.parent = 0;
  event.next = 0;
  event.key = 0;
  event.channels = 0;
  event.channels_done = 0;
  event.first_ns = 0;
  event.last_ns = 0;
  event.open = true;
  event.captured = false;
  event.chain = nullptr;
  event.number.store(number, std::memory_order_release);
  return number;
}

Event* EventRing::find(Handle handle) noexcept {
  if (handle == 0) return nullptr;
  Event& event = events_[handle % kEvents];
  return event.number.load(std::memory_order_acquire) == handle ? &event : nullptr;
}

namespace {

PeerCounts* make_counts(int size, PeerCounts* older) noexcept {
  auto* counts = new (std::nothrow) PeerCounts;
  if (!counts) return older;
  counts->older = older;
  // Version 3 does not tell the size.
  counts->peers = size > 0 ? std::min<uint32_t>(static_cast<uint32_t>(size), kMaxPeers) : 1024;
  counts->sends = new (std::nothrow) std::atomic<uint32_t>[counts->peers]();
  counts->recvs = new (std::nothrow) std::atomic<uint32_t>[counts->peers]();
  if (!counts->sends || !counts->recvs) counts->peers = 0;
  return counts;
}

}  // namespace

Comm* CommTable::create(uint64_t hash, int rank, int size, int nodes, int api) noexcept {
  // Callers exclude each other (nccl_plugin.cc): NCCL makes communicators from several threads, but rarely.
  for (uint32_t i = 0; i < kComms; ++i) {
    Comm& comm = comms_[i];
    if (comm.number.load(std::memory_order_acquire) != 0) continue;
    comm.hash = hash;
    comm.rank = rank;
    comm.size = size;
    comm.nodes = nodes;
    comm.api = api;
    comm.announced = false;
    comm.events_allowed = true;
    comm.launch_open = false;
    comm.wants_end = false;
    comm.begin_slot = kNoSlot;
    comm.end_slot = kNoSlot;
    comm.first_op = 0;
    comm.last_op = 0;
    comm.launch_ops = 0;
    comm.launches = 0;
    comm.chain = nullptr;
    comm.counts.store(make_counts(size, comm.counts.load()), std::memory_order_release);
    const uint64_t generation = generation_.fetch_add(1, std::memory_order_relaxed) + 1;
    comm.number.store(generation * kComms + i, std::memory_order_release);
    return &comm;
  }
  return nullptr;
}

Comm* CommTable::find(Handle handle) noexcept {
  if (handle < kComms) return nullptr;
  Comm& comm = comms_[handle % kComms];
  return comm.number.load(std::memory_order_acquire) == handle ? &comm : nullptr;
}

bool CommTable::remove(Handle handle) noexcept {
  if (handle < kComms) return false;
  return comms_[handle % kComms].number.compare_exchange_strong(handle, 0, std::memory_order_acq_rel);
}

uint32_t CommTable::live() const noexcept {
  uint32_t count = 0;
  for (const Comm& comm : comms_) count += comm.number.load(std::memory_order_relaxed) != 0;
  return count;
}

uint64_t CommTable::next_peer_sequence(Comm& comm, int peer, bool send) noexcept {
  PeerCounts* counts = comm.counts.load(std::memory_order_acquire);
  if (!counts || peer < 0 || static_cast<uint32_t>(peer) >= counts->peers) return 0;
  auto* row = send ? counts->sends : counts->recvs;
  return row[peer].fetch_add(1, std::memory_order_relaxed);
}

}  // namespace stepscope::recorder::nccl
