#include "align/memory_readings.h"

namespace stepscope {

const DeviceMemory& MemoryReadings::add(const Event& e, Kind kind) {
  if (kind == Kind::kMemory) {
    newest_.allocated_bytes = e.a, newest_.reserved_bytes = e.b, newest_.active_bytes = e.c,
    newest_.inactive_split_bytes = e.d;
    newest_.held_bytes = is_after_optimizer(e) ? e.a : 0;
    newest_.near_top = e.flags == pack_kind(Kind::kBackward, Edge::kBegin);
  } else if (kind == Kind::kMemoryPeak) {
    newest_.peak_bytes = e.a;
  } else {
    newest_.retries = e.a, newest_.ooms = e.b, newest_.device_allocs = e.c, newest_.device_frees = e.d;
  }
  return newest_;
}

void MemoryReadings::add_failure(const Event& e, uint64_t step, Category phase, RankLife& life) {
  if (life.out_of_memory.size() >= kMaxOoms) return;
  OutOfMemory oom;
  oom.requested_bytes = e.a, oom.allocated_bytes = e.b, oom.reserved_bytes = e.c, oom.capacity_bytes = e.d;
  oom.step = step;
  oom.phase = phase;
  life.out_of_memory.push_back(oom);
}

void MemoryReadings::add_failure_detail(const Event& e, RankLife& life) {
  if (life.out_of_memory.empty()) return;
  OutOfMemory& oom = life.out_of_memory.back();
  oom.largest_free_block_bytes = e.a, oom.device_free_bytes = e.b, oom.inactive_split_bytes = e.c,
  oom.grown_bytes = e.d;
}

}  // namespace stepscope
