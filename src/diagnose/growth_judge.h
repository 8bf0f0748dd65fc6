// Applies analyze/growth.h to a sampled memory series of a rank: over steps where they are known, else over seconds;
// warm-up left out; the whole of it, then its newer parts, since a leak may begin late.
#pragma once

#include <optional>

#include "align/host_facts.h"
#include "analyze/growth.h"
#include "diagnose/host_thresholds.h"
#include "diagnose/host_view.h"

namespace stepscope::host {

struct Verdict {
  GrowthShape shape = GrowthShape::kTooShort;  // kLinear and kStaircase are verified and go on; others are no finding
  double growth_bytes = 0, bytes_per_s = 0;
  std::optional<double> bytes_per_step;
  int stairs = 0;
  double stair_bytes = 0;
  int64_t first_step = -1;  // that lies on the line, traced back into warm-up
};

Verdict judge_series(const RankProcess& rank, const SampledSeries& series, const Window& window, const HostThresholds& limits);

}  // namespace stepscope::host
