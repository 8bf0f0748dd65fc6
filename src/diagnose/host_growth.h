// Applies analyze/growth_track.h to a series of the sampler: over the rank's steps where they are known. Pure.
#pragma once

#include "analyze/growth_track.h"
#include "diagnose/host_view.h"

namespace stepscope::host {

using Verdict = GrowthVerdict;

GrowthVerdict judge_series(const RankProcess& rank, const SampledSeries& series, const Window& window,
                           const HostThresholds& limits);

}  // namespace stepscope::host
