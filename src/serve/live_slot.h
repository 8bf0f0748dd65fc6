// Where the agent lays down its newest snapshot and the server picks it up. Thread-safe; the lock is held for the copy
// of a pointer. The agent makes snapshots only while somebody looks: wanted() says so.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "align/host_facts.h"
#include "diagnose/snapshot.h"

namespace stepscope {

class LiveSlot {
 public:
  struct State {
    std::shared_ptr<const Snapshot> snapshot;  // null: none yet
    std::shared_ptr<const HostFacts> host;     // what was sampled so far; may be null
    uint64_t version = 0;
  };

  void put(std::shared_ptr<const Snapshot> snapshot, std::shared_ptr<const HostFacts> host = nullptr) {
    const std::scoped_lock lock(mutex_);
    state_ = {std::move(snapshot), std::move(host), state_.version + 1};
  }
  // Also says that somebody looks.
  State get(uint64_t now_ns) {
    looked_ns_.store(now_ns, std::memory_order_relaxed);
    const std::scoped_lock lock(mutex_);
    return state_;
  }
  // Somebody has looked within the last kLookNs.
  bool wanted(uint64_t now_ns) const {
    const uint64_t looked_ns = looked_ns_.load(std::memory_order_relaxed);
    return looked_ns > 0 && now_ns < looked_ns + kLookNs;
  }

 private:
  static constexpr uint64_t kLookNs = 5'000'000'000;
  std::atomic<uint64_t> looked_ns_{0};
  std::mutex mutex_;
  State state_;
};

}  // namespace stepscope
