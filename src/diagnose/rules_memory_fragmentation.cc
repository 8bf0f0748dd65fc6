// MEMORY_FRAGMENTATION: near the top of the step, when memory is needed most, much of what torch has reserved lies
// unused in split blocks: what is asked for next does not fit into them.
#include <algorithm>

#include "base/text_format.h"
#include "diagnose/host_view.h"
#include "diagnose/rule.h"

namespace stepscope {

void judge_device_fragments(const RuleInput& in, std::vector<Finding>& out) {
  FindingBuilder f = in.finding(FindingKind::kMemoryFragmentation);
  f.graded(Severity::kWarn).throughout().confidence(0.95);
  const RankMemory* worst = nullptr;
  for (const RankMemory& m : in.memory) {
    if (!m.split_bytes || *m.split_of_bytes <= 0 || *m.split_bytes < in.limits->fragment_min_share * *m.split_of_bytes)
      continue;
    if (m.share(*m.split_bytes) < in.limits->fragment_min_device_share) continue;
    f.also_about(m.rank);
    if (m.share(m.reserved_bytes) >= in.limits->device_memory_near_share) f.graded(Severity::kCrit);
    if (!worst || *m.split_bytes > *worst->split_bytes) worst = &m;
    if (f->evidence.size() >= 12) continue;
    f.evidence("inactive_split_bytes", *m.split_bytes, m.rank)
        .evidence("inactive_split_share", *m.split_bytes / *m.split_of_bytes, m.rank)
        .evidence("reserved_bytes", m.reserved_bytes, m.rank)
        .evidence("allocated_bytes", m.allocated_bytes, m.rank);
  }
  if (!worst) return;
  f.title(formatted("{}: {} of device memory lie in fragments that nothing fits into, {} of what torch has reserved",
                    capitalized(format_ranks(f->ranks)), format_bytes(*worst->split_bytes),
                    format_percent(*worst->split_bytes / *worst->split_of_bytes)))
      .action(
          "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; round lengths up to few sizes; allocate what stays before "
          "what goes");
  out.push_back(f);
}

}  // namespace stepscope
