// What the device and its allocator say.
#include <optional>

#include "align/event_rows.h"

namespace stepscope {

void tell_gpu_mark(OpenRank& rank, const Event& e, int64_t) {
  rank.device.lane().mark(static_cast<int64_t>(e.time_ns), static_cast<uint16_t>(e.a), e.b, static_cast<int64_t>(e.d),
                          static_cast<int64_t>(e.c), e.flags);
  rank.device.release(rank.last_ns, false);
}

void tell_memory(OpenRank& rank, const Event& e, int64_t) {
  const DeviceMemory& newest = rank.memory.add(e, kind_of(e.kind));
  if (!rank.started) return;
  // Read behind the optimizer it belongs to the step that it ends, although that step may already be a candidate.
  const bool ended = MemoryReadings::is_after_optimizer(e) && rank.parts.rule().has_candidate();
  std::optional<DeviceMemory>& reading = (ended ? rank.parts.facts_before() : rank.parts.facts()).memory;
  if (!reading) reading.emplace();
  reading->add(newest);
}

void tell_out_of_memory(OpenRank& rank, const Event& e, int64_t) {
  MemoryReadings::add_failure(e, rank.life.steps + (rank.parts.rule().has_candidate() ? 1 : 0),
                              rank.stack.now(rank.gap(), false).category, rank.life);
}

void tell_out_of_memory_detail(OpenRank& rank, const Event& e, int64_t) {
  MemoryReadings::add_failure_detail(e, rank.life);
}

}  // namespace stepscope
