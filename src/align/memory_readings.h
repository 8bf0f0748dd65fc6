// What the allocator of a rank's device says, put together from records: a reading is up to three records of the same
// boundary, sizes first, then what has changed of peak and counters.
//
// A plain single-threaded object; no failure.
#pragma once

#include <cstdint>

#include "align/event.h"
#include "align/rank_step.h"
#include "blackbox/event_kind.h"

namespace stepscope {

class MemoryReadings {
 public:
  static constexpr size_t kMaxOoms = 16;

  // A record of kind kMemory, kMemoryPeak or kMemoryCounters. Returns the reading as it stands now.
  const DeviceMemory& add(const Event& e, Kind kind);
  // Read behind the optimizer: it belongs to the step that the optimizer ends.
  static bool is_after_optimizer(const Event& e) { return e.flags == pack_kind(Kind::kOptimizer, Edge::kEnd); }

  // A failed allocation in step `step`, inside of `phase`; its second record.
  static void add_failure(const Event& e, uint64_t step, Category phase, RankLife& life);
  static void add_failure_detail(const Event& e, RankLife& life);

 private:
  DeviceMemory newest_;
};

}  // namespace stepscope
