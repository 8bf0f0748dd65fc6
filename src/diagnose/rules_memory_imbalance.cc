// MEMORY_IMBALANCE: one rank needs far more device memory than the others, and enough of it to limit the job's batch.
#include <algorithm>

#include "analyze/robust.h"
#include "base/text_format.h"
#include "diagnose/memory_view.h"

namespace stepscope::memory {

void judge_imbalance(const Judged& j, const std::vector<RankMemory>& ranks, std::vector<Finding>& out) {
  if (ranks.size() < 2) return;
  const auto worst = std::max_element(
      ranks.begin(), ranks.end(), [](const RankMemory& a, const RankMemory& b) { return a.peak_bytes < b.peak_bytes; });
  std::vector<double> others;
  for (const RankMemory& m : ranks)
    if (m.rank != worst->rank) others.push_back(m.peak_bytes);
  const double usual = median(others);
  if (usual <= 0 || worst->peak_bytes < (1 + j.limits->device_memory_uneven_share) * usual) return;
  if (worst->share(worst->peak_bytes) < j.limits->device_memory_uneven_min_share) return;
  const bool near = worst->demand_share() >= j.limits->device_memory_near_share;
  Finding f = begin(j, FindingKind::kMemoryImbalance, near ? Severity::kCrit : Severity::kWarn);
  f.ranks = {worst->rank};
  f.title =
      formatted("Rank {} needs {} of device memory, the others {}: {} limits the batch size", worst->rank,
                format_bytes(worst->peak_bytes), format_bytes(usual), j.half_seen() ? "of those seen it" : "it alone");
  f.action =
      "Look at what only this rank holds (logits, optimizer state, a metric, evaluation, tensors loaded to cuda:0); "
      "even out stages of a pipeline";
  Evidence e = fact("peak_allocated_bytes", worst->peak_bytes, worst->rank, usual);
  f.evidence = {std::move(e), fact("excess_share", worst->peak_bytes / usual - 1, worst->rank),
                fact("capacity_bytes", worst->capacity_bytes, worst->rank)};
  out.push_back(std::move(f));
}

}  // namespace stepscope::memory
