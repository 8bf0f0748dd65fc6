// RESERVED_OVERHANG: torch keeps far more of the device than the job has ever used at once. Harmless for the job, until
// somebody else wants the memory; fragments are a kind of their own.
#include <algorithm>

#include "base/text_format.h"
#include "diagnose/host_view.h"
#include "diagnose/rule.h"

namespace stepscope {

void judge_device_overhang(const RuleInput& in, std::vector<Finding>& out) {
  FindingBuilder f = in.finding(FindingKind::kReservedOverhang);
  f.graded(Severity::kInfo).throughout().confidence(0.95);
  const RankMemory* worst = nullptr;
  for (const RankMemory& m : in.memory) {
    const bool fragments = std::any_of(out.begin(), out.end(), [&](const Finding& o) {
      return o.kind == FindingKind::kMemoryFragmentation &&
             std::find(o.ranks.begin(), o.ranks.end(), m.rank) != o.ranks.end();
    });
    if (fragments || m.reserved_bytes < in.limits->overhang_factor * m.peak_bytes) continue;
    if (m.share(m.reserved_bytes) < in.limits->overhang_min_device_share) continue;
    f.also_about(m.rank);
    // Somebody else is there who may want it.
    if (m.others_bytes + m.other_ranks_bytes > 0) f.graded(Severity::kWarn);
    if (!worst || m.reserved_bytes > worst->reserved_bytes) worst = &m;
    if (f->evidence.size() >= 12) continue;
    f.evidence("reserved_bytes", m.reserved_bytes, m.rank)
        .evidence("peak_allocated_bytes", m.peak_bytes, m.rank)
        .evidence("reserved_share", m.share(m.reserved_bytes), m.rank);
  }
  if (!worst) return;
  f.title(formatted("{}: torch has reserved {}, but never more than {} were in use",
                    capitalized(format_ranks(f->ranks)), format_bytes(worst->reserved_bytes),
                    format_bytes(worst->peak_bytes)))
      .action(
          "Torch.cuda.empty_cache() once after the phase that needed it, or expandable_segments; sizes that change "
          "every "
          "step leave blocks behind");
  out.push_back(f);
}

}  // namespace stepscope
