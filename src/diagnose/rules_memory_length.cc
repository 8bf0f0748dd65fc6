// LENGTH_DRIVEN_PEAK: memory near the top of the step follows the size of the batch. Always info: it says what the
// longest batch needs; whether memory also grows with the steps is for MEMORY_CREEP to say.
#include <algorithm>

#include "analyze/device_memory.h"
#include "analyze/robust.h"
#include "base/text_format.h"
#include "diagnose/host_view.h"
#include "diagnose/rule.h"

namespace stepscope {

void judge_device_lengths(const RuleInput& in, std::vector<Finding>& out) {
  FindingBuilder f = in.finding(FindingKind::kLengthDrivenPeak);
  f.graded(Severity::kInfo).throughout().confidence(0.95);
  const RankMemory* worst = nullptr;
  double correlation = 0, largest_size = 0;
  std::string unit;
  for (const RankMemory& m : in.memory) {
    const MemoryTrack track = top_track(in.with_warmup, m.rank, in.limits->device_creep_warmup_steps);
    if (track.points() < static_cast<size_t>(in.limits->device_creep_early_steps)) continue;
    const double r = size_correlation(track);
    const double range = quantile(track.bytes, 0.95) - quantile(track.bytes, 0.05);
    if (r < in.limits->length_min_correlation || range < in.limits->length_min_range_share * median(track.bytes))
      continue;
    f.also_about(m.rank);
    if (f->evidence.size() < 12) {
      f.evidence("correlation_with_size", r, m.rank)
          .evidence("bytes_per_unit", bytes_per_unit(track), m.rank)
          .evidence("range_bytes", range, m.rank);
    }
    if (worst && m.peak_bytes <= worst->peak_bytes) continue;
    worst = &m;
    correlation = r;
    unit = track.unit;
    largest_size = *std::max_element(track.size.begin(), track.size.end());
  }
  if (!worst) return;
  if (f->ranks.size() == in.memory.size()) f.about_job();
  f.title(formatted("Memory follows the size of the batch (r = {:.2f}). The largest so far ({:.0f} {}s) needed {}",
                    correlation, largest_size, unit, format_bytes(worst->peak_bytes)));
  if (worst->capacity_bytes > 0) f.title_goes_on(formatted(" of {}", format_bytes(worst->capacity_bytes)));
  f.action(
      "Try the longest batch of the data set first; limit the length, or fill batches by tokens instead of samples");
  out.push_back(f);
}

}  // namespace stepscope
