// Applies analyze/growth_track.h to a series of the sampler: over the rank's steps where they are known. Pure.
#pragma once

#include <optional>
#include <span>

#include "analyze/growth_track.h"
#include "diagnose/host_view.h"
#include "diagnose/memory_forecast.h"

namespace stepscope::host {

using Verdict = GrowthVerdict;

struct GrowingRank {
  const RankProcess* rank;
  const GrowthVerdict* verdict;
};
// Of the host's memory and of the groups with a limit of their own, which those below share, the one that is full
// first.
std::optional<MemoryForecast> soonest_limit(const HostFacts& facts, std::span<const GrowingRank> growers);

GrowthVerdict judge_series(const RankProcess& rank, const SampledSeries& series, const Window& window,
                           const HostThresholds& limits);

}  // namespace stepscope::host
