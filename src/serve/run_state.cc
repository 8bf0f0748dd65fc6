#include "serve/run_state.h"

#include <algorithm>
#include <cmath>

namespace stepscope {

RunDigest digest_of(const Snapshot& s) {
  RunDigest d{.name = s.run.name, .status = s.run.status, .started_at = s.run.started_at};
  for (const std::string& word : s.run.command) d.command += (d.command.empty() ? "" : " ") + word;
  d.going_on = s.run.status == "running";
  d.duration_s = s.run.duration_s;
  d.world_size = s.run.world_size, d.nodes = s.run.nodes;
  d.steps = s.steps;
  d.step_p50_ms = s.wall_ms.p50;
  if (const auto found = s.throughput.find("samples_per_s"); found != s.throughput.end())
    d.samples_per_s = found->second;
  for (const DeviceMemoryRank& rank : s.memory)
    if (rank.peak_bytes) d.peak_bytes = std::max(d.peak_bytes.value_or(0), *rank.peak_bytes);
  if (s.primary >= 0 && static_cast<size_t>(s.primary) < s.findings.size()) {
    const Finding& f = s.findings[static_cast<size_t>(s.primary)];
    d.verdict = f.kind, d.severity = f.severity, d.title = f.title;
    if (f.cost_share > 0) d.cost_share = f.cost_share;
  }
  // The longest of the steps that share a point: a peak must not vanish.
  const size_t points = std::min(kDigestSteps, s.recent.size());
  for (size_t p = 0; p < points; ++p) {
    float longest = 0;
    for (size_t i = p * s.recent.size() / points; i < (p + 1) * s.recent.size() / points; ++i)
      longest = std::max(longest, std::isfinite(s.recent[i].wall_ms) ? static_cast<float>(s.recent[i].wall_ms) : 0.0f);
    d.walls_ms.push_back(longest);
  }
  return d;
}

}  // namespace stepscope
