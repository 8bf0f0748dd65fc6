// What the host rules share: the part of a series that a verdict may rest on, steps at a time, figures in words. Pure.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "align/host_facts.h"
#include "analyze/host_load.h"
#include "diagnose/host_thresholds.h"

namespace stepscope::host {

// Between the first completed step and the last sample after which another step came: start-up (imports), what follows
// the last step and teardown are no evidence about training.
struct Window {
  int64_t begin_ns = 0, end_ns = 0;
  bool empty() const { return end_ns <= begin_ns; }
  bool holds(int64_t t) const { return t >= begin_ns && t <= end_ns; }
};
// Without any knowledge of steps: everything.
Window steady_window(const RankProcess& rank);
// The hull of the ranks' windows; everything where there are no ranks.
Window steady_window(const HostFacts& facts);

std::vector<double> values_in(const SampledSeries& series, const Window& window);
double share_at_least(const std::vector<double>& values, double limit);  // 0 when empty

// Completed steps of a rank at a time, interpolated; -1 when steps are not known.
double steps_at(const RankProcess& rank, int64_t time_ns);
// The newest step of any rank, -1 = unknown.
int64_t newest_step(const HostFacts& facts);
int64_t newest_step(const RankProcess& rank);

double seconds_of(const Window& window);

// Medians over the steps' time: what its cores are asked for (analyze/host_load.h).
HostLoad load_of(const HostFacts& facts);
// Cores that the ranks and what they started use; nullopt when not sampled, or not all of them are followed.
std::optional<double> cores_of_ranks(const HostFacts& facts);
// Cores that others use where the ranks use `ours`; 0 when the host's are not sampled.
double cores_of_others(const HostFacts& facts, double ours);

}  // namespace stepscope::host
