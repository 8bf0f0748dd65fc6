// MEMORY_IMBALANCE: one rank needs far more device memory than the others, and enough of it to limit the job's batch.
#include <algorithm>

#include "analyze/robust.h"
#include "base/text_format.h"
#include "diagnose/host_view.h"
#include "diagnose/rule.h"

namespace stepscope {

void judge_device_imbalance(const RuleInput& in, std::vector<Finding>& out) {
  if (in.memory.size() < 2) return;
  const auto worst = std::max_element(in.memory.begin(), in.memory.end(), [](const RankMemory& a, const RankMemory& b) {
    return a.peak_bytes < b.peak_bytes;
  });
  std::vector<double> others;
  for (const RankMemory& m : in.memory)
    if (m.rank != worst->rank) others.push_back(m.peak_bytes);
  const double usual = median(others);
  if (usual <= 0 || worst->peak_bytes < (1 + in.limits->device_memory_uneven_share) * usual) return;
  if (worst->share(worst->peak_bytes) < in.limits->device_memory_uneven_min_share) return;
  const bool near = worst->demand_share() >= in.limits->device_memory_near_share;
  FindingBuilder f = in.finding(FindingKind::kMemoryImbalance);
  f.graded(near ? Severity::kCrit : Severity::kWarn)
      .throughout()
      .confidence(0.95)
      .about(worst->rank)
      .title(formatted("Rank {} needs {} of device memory, the others {}: {} limits the batch size", worst->rank,
                       format_bytes(worst->peak_bytes), format_bytes(usual),
                       in.half_seen() ? "of those seen it" : "it alone"))
      .action(
          "Look at what only this rank holds (logits, optimizer state, a metric, evaluation, tensors loaded to "
          "cuda:0); "
          "even out stages of a pipeline")
      .evidence("peak_allocated_bytes", worst->peak_bytes, worst->rank, usual)
      .evidence("excess_share", worst->peak_bytes / usual - 1, worst->rank)
      .evidence("capacity_bytes", worst->capacity_bytes, worst->rank);
  out.push_back(f);
}

}  // namespace stepscope
