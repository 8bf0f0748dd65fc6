// RESERVED_OVERHANG: torch keeps far more of the device than the job has ever used at once. Harmless for the job, until
// somebody else wants the memory; fragments are a kind of their own.
#include <algorithm>

#include "base/text_format.h"
#include "diagnose/memory_view.h"

namespace stepscope::memory {

void judge_overhang(const Judged& j, const std::vector<RankMemory>& ranks, std::vector<Finding>& out) {
  Finding f = begin(j, FindingKind::kReservedOverhang, Severity::kInfo);
  const RankMemory* worst = nullptr;
  for (const RankMemory& m : ranks) {
    const bool fragments = std::any_of(out.begin(), out.end(), [&](const Finding& o) {
      return o.kind == FindingKind::kMemoryFragmentation &&
             std::find(o.ranks.begin(), o.ranks.end(), m.rank) != o.ranks.end();
    });
    if (fragments || m.reserved_bytes < j.limits->overhang_factor * m.peak_bytes) continue;
    if (m.share(m.reserved_bytes) < j.limits->overhang_min_device_share) continue;
    f.ranks.push_back(m.rank);
    // Somebody else is there who may want it.
    if (m.others_bytes + m.other_ranks_bytes > 0) f.severity = Severity::kWarn;
    if (!worst || m.reserved_bytes > worst->reserved_bytes) worst = &m;
    if (f.evidence.size() >= 12) continue;
    f.evidence.push_back(fact("reserved_bytes", m.reserved_bytes, m.rank));
    f.evidence.push_back(fact("peak_allocated_bytes", m.peak_bytes, m.rank));
    f.evidence.push_back(fact("reserved_share", m.share(m.reserved_bytes), m.rank));
  }
  if (!worst) return;
  f.title = formatted("{}: torch has reserved {}, but never more than {} were in use", who(f.ranks),
                      format_bytes(worst->reserved_bytes), format_bytes(worst->peak_bytes));
  f.action =
      "torch.cuda.empty_cache() once after the phase that needed it, or expandable_segments; sizes that change every "
      "step leave blocks behind";
  out.push_back(std::move(f));
}

}  // namespace stepscope::memory
