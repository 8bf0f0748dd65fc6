// MEMORY_FRAGMENTATION: near the top of the step, when memory is needed most, much of what torch has reserved lies
// unused in split blocks: what is asked for next does not fit into them.
#include <algorithm>

#include "base/text_format.h"
#include "diagnose/memory_view.h"

namespace stepscope::memory {

void judge_fragments(const Judged& j, const std::vector<RankMemory>& ranks, std::vector<Finding>& out) {
  Finding f = begin(j, FindingKind::kMemoryFragmentation, Severity::kWarn);
  const RankMemory* worst = nullptr;
  for (const RankMemory& m : ranks) {
    if (!m.split_bytes || *m.split_of_bytes <= 0 || *m.split_bytes < j.limits->fragment_min_share * *m.split_of_bytes)
      continue;
    if (m.share(*m.split_bytes) < j.limits->fragment_min_device_share) continue;
    f.ranks.push_back(m.rank);
    if (m.share(m.reserved_bytes) >= j.limits->device_memory_near_share) f.severity = Severity::kCrit;
    if (!worst || *m.split_bytes > *worst->split_bytes) worst = &m;
    if (f.evidence.size() >= 12) continue;
    f.evidence.push_back(fact("inactive_split_bytes", *m.split_bytes, m.rank));
    f.evidence.push_back(fact("inactive_split_share", *m.split_bytes / *m.split_of_bytes, m.rank));
    f.evidence.push_back(fact("reserved_bytes", m.reserved_bytes, m.rank));
    f.evidence.push_back(fact("allocated_bytes", m.allocated_bytes, m.rank));
  }
  if (!worst) return;
  f.title = formatted("{}: {} of device memory lie in fragments that nothing fits into, {} of what torch has reserved",
                      who(f.ranks), format_bytes(*worst->split_bytes),
                      format_percent(*worst->split_bytes / *worst->split_of_bytes));
  f.action =
      "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; round lengths up to few sizes; allocate what stays before "
      "what goes";
  out.push_back(std::move(f));
}

}  // namespace stepscope::memory
