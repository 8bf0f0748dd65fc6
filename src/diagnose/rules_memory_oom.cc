// MEMORY_PRESSURE, cause out_of_memory: an allocation on the device failed. What was asked for, in which phase, and why
// it did not fit: too large for any room, in pieces, taken by others, or simply full.
#include <algorithm>

#include "base/text_format.h"
#include "diagnose/host_view.h"
#include "diagnose/rule.h"

namespace stepscope {

namespace {

double bytes(uint64_t n) { return static_cast<double>(n); }

std::string reason(const OutOfMemory& oom, const RankMemory* m) {
  const double unused = bytes(oom.reserved_bytes) - bytes(oom.allocated_bytes);
  if (oom.capacity_bytes > 0 && oom.requested_bytes > oom.capacity_bytes) return "more than the device has in all";
  if (unused >= bytes(oom.requested_bytes) && oom.largest_free_block_bytes > 0 &&
      oom.largest_free_block_bytes < oom.requested_bytes)
    return formatted("{} are reserved and unused, but in pieces of at most {}", format_bytes(unused),
                     format_bytes(bytes(oom.largest_free_block_bytes)));
  if (m && m->others_bytes > 0 && m->others_bytes + bytes(oom.device_free_bytes) >= bytes(oom.requested_bytes))
    return formatted("other processes hold {}", format_bytes(m->others_bytes));
  return formatted("{} were allocated and {} free on the device", format_bytes(bytes(oom.allocated_bytes)),
                   format_bytes(bytes(oom.device_free_bytes)));
}

const RankMemory* of_rank(const std::vector<RankMemory>& ranks, int rank) {
  const auto found = std::find_if(ranks.begin(), ranks.end(), [rank](const RankMemory& m) { return m.rank == rank; });
  return found == ranks.end() ? nullptr : &*found;
}

Finding report(const RuleInput& in, int rank, const RankLife& life, const RankMemory* m) {
  const OutOfMemory& oom = life.out_of_memory.back();
  FindingBuilder f = in.finding(FindingKind::kMemoryPressure);
  f.graded(Severity::kCrit)
      .throughout()
      .confidence(0.95)
      .about(rank)
      .caused_by(Cause::kOutOfMemory)
      .confidence(0.99)
      .from(life.out_of_memory.front().step)
      .until(oom.step);
  const bool named = oom.phase != Category::kUnattributed;
  if (named) f.in(oom.phase);
  const std::string times = life.out_of_memory.size() > 1 ? formatted(" ({} times)", life.out_of_memory.size()) : "";
  f.title(formatted("Rank {} ran out of memory at step {}{}{}: {} asked for, {}", rank, oom.step,
                    named ? " in " + f->phase : "", times, format_bytes(bytes(oom.requested_bytes)), reason(oom, m)))
      .action(
          "Smaller micro-batches, activation checkpointing or sharding; where it is in pieces, "
          "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True")
      .evidence("requested_bytes", bytes(oom.requested_bytes), rank)
      .evidence("allocated_bytes", bytes(oom.allocated_bytes), rank)
      .evidence("reserved_bytes", bytes(oom.reserved_bytes), rank)
      .evidence("capacity_bytes", bytes(oom.capacity_bytes), rank)
      .evidence("device_free_bytes", bytes(oom.device_free_bytes), rank)
      .evidence("inactive_split_bytes", bytes(oom.inactive_split_bytes), rank);
  if (oom.largest_free_block_bytes > 0)
    f.evidence("largest_free_block_bytes", bytes(oom.largest_free_block_bytes), rank);
  f.evidence("grown_since_last_reading_bytes", bytes(oom.grown_bytes), rank);
  if (m) f.evidence("peak_allocated_bytes", m->peak_bytes, rank);
  return f;
}

}  // namespace

// One finding per rank, of the ranks that failed first: where one rank's size is the cause the others have none.
void judge_device_oom(const RuleInput& in, std::vector<Finding>& out) {
  constexpr size_t kMaxFindings = 4;
  std::vector<std::pair<uint32_t, int>> failed;
  for (const auto& [rank, life] : *in.lives)
    if (!life.out_of_memory.empty()) failed.push_back({life.out_of_memory.front().step, rank});
  std::sort(failed.begin(), failed.end());
  for (size_t i = 0; i < failed.size() && i < kMaxFindings; ++i) {
    const int rank = failed[i].second;
    out.push_back(report(in, rank, in.lives->at(rank), of_rank(in.memory, rank)));
  }
}

}  // namespace stepscope
