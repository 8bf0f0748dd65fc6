// LENGTH_DRIVEN_PEAK: memory near the top of the step follows the size of the batch. Healthy, and always info: it says
// that a growth is no leak and what the longest batch needs.
#include <algorithm>

#include "analyze/device_memory.h"
#include "analyze/robust.h"
#include "base/text_format.h"
#include "diagnose/memory_view.h"

namespace stepscope::memory {

void judge_lengths(const Judged& j, const std::vector<RankMemory>& ranks, std::vector<Finding>& out) {
  Finding f = begin(j, FindingKind::kLengthDrivenPeak, Severity::kInfo);
  const RankMemory* worst = nullptr;
  double correlation = 0, largest_size = 0;
  std::string unit;
  for (const RankMemory& m : ranks) {
    const MemoryTrack track = top_track(j.with_warmup, m.rank, j.limits->device_creep_warmup_steps);
    if (track.points() < static_cast<size_t>(j.limits->device_creep_early_steps)) continue;
    const double r = size_correlation(track);
    const double range = quantile(track.bytes, 0.95) - quantile(track.bytes, 0.05);
    if (r < j.limits->length_min_correlation || range < j.limits->length_min_range_share * median(track.bytes))
      continue;
    f.ranks.push_back(m.rank);
    if (f.evidence.size() < 12) {
      f.evidence.push_back(fact("correlation_with_size", r, m.rank));
      f.evidence.push_back(fact("bytes_per_unit", bytes_per_unit(track), m.rank));
      f.evidence.push_back(fact("range_bytes", range, m.rank));
    }
    if (worst && m.peak_bytes <= worst->peak_bytes) continue;
    worst = &m;
    correlation = r;
    unit = track.unit;
    largest_size = *std::max_element(track.size.begin(), track.size.end());
  }
  if (!worst) return;
  f.job_scope = f.ranks.size() == ranks.size();
  if (f.job_scope) f.ranks.clear();
  f.title =
      formatted("Memory follows the size of the batch (r = {:.2f}): no leak. The largest so far ({:.0f} {}s) needed {}",
                correlation, largest_size, unit, format_bytes(worst->peak_bytes));
  if (worst->capacity_bytes > 0) f.title += formatted(" of {}", format_bytes(worst->capacity_bytes));
  f.action =
      "Try the longest batch of the data set first; limit the length, or fill batches by tokens instead of samples";
  out.push_back(std::move(f));
}

}  // namespace stepscope::memory
