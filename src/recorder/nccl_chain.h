// A profiler plugin that the user had configured before us (NVIDIA's Inspector, a cloud vendor's own): NCCL has one
// slot, so we load it and pass on what it asked for, with its own handles as parents.
//
// Found at the path or name in STEPSCOPE_NCCL_CHAIN; without it, what NCCL itself would have loaded:
// libnccl-profiler.so, then the network plugin that is already there. Its newest version not above NCCL's is used;
// version 5 and 6 events are handed to a plugin that only knows version 4 in its shape. A plugin that only knows
// version 3 or older cannot be served under a newer NCCL: chain_supported() says so before the slot is taken.
//
// Threads: load() once, under the caller's lock; the rest from any thread. Cost: one indirect call and a copy of 112
// bytes per event that it wants. Its failures are returned to nobody: NCCL ignores them as well.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "recorder/nccl_abi.h"

namespace stepscope::recorder::nccl {

class Chain {
 public:
  // `api`: the version that NCCL speaks with us. True when there is a plugin to serve. Tried once per process.
  bool load(int api);
  bool active() const noexcept { return active_.load(std::memory_order_acquire); }
  int mask() const noexcept { return active() ? __atomic_load_n(&mask_, __ATOMIC_RELAXED) : 0; }
  const std::string& what() const noexcept { return what_; }  // path and version, or why there is none

  void* init(uint64_t hash, const char* name, int nodes, int ranks, int rank, LogFunction log) noexcept;
  void finalize(void* context) noexcept;

  // Whether NCCL would have told the plugin of an event of this type, given its own mask.
  bool wants(uint64_t type) const noexcept;
  // `descriptor` as NCCL gave it; parents are the plugin's own handles. Null when it did not take the event.
  void* start(void* context, const void* descriptor, void* parent, void* parent_group) noexcept;
  void stop(void* handle) noexcept;
  void record_state(void* handle, int state, StateArgs* args) noexcept;

 private:
  bool take_symbols(void* library, int api);

  std::atomic<bool> active_{false};
  bool tried_ = false;
  int nccl_api_ = 0, api_ = 0;
  void* table_ = nullptr;
  int mask_ = 0;  // the plugin writes it whenever it likes, as NCCL's own
  std::string what_ = "none";
};

// The newest version that the library at `path` (or of the name) exports, 0 when it cannot be loaded or has none.
int chain_version(const char* path_or_name) noexcept;

}  // namespace stepscope::recorder::nccl
