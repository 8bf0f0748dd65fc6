// By how much the median step of one run is uncertain, and by how much runs of a side differ: what `compare` judges a
// change by. Pure.
//
// Within a run steps resemble their neighbours, so that a plain standard error is too small. The newest steps are cut
// into kNoiseStretches stretches whose medians are taken for independent. The error is the larger of
//   1.2533 * sigma / sqrt(n)                  sigma = (p90 - p50) / 1.2816, n = steps / 4, at most 100
//   sd(medians of stretches) / sqrt(stretches)
#pragma once

#include <optional>
#include <span>

#include "diagnose/snapshot.h"

namespace stepscope {

inline constexpr size_t kNoiseStretches = 10;
inline constexpr size_t kLeastStretchSteps = 4;  // fewer: the first formula alone

// Standard error of the run's median step, relative to it. None where the step time was not measured.
std::optional<double> median_error(const Snapshot& run);

// Share of the time for which the run's ranks waited for a core while other programs used it: so much may differ from
// run to run, whatever one run looks like. 0 where the host was their own, where that was not measured, and where steps
// are timed on devices, which go on meanwhile.
double crowding(const Snapshot& run);

// Not of nothing.
double mean_of(std::span<const double> values);

// The mean of one figure over the runs of each side, and the standard deviation from run to run that both sides show
// together (pooled). freedom() 0: one run a side, the deviation is not known.
struct TwoMeans {
  double a = 0, b = 0, deviation = 0;
  size_t runs_a = 0, runs_b = 0;

  size_t freedom() const { return runs_a + runs_b - 2; }
};
// Neither may be empty.
TwoMeans two_means(std::span<const double> a, std::span<const double> b);

// What the difference of two means may be by chance: more in 2 of 100 comparisons of equal sides, upwards, and in as
// many downwards (Student's t). Needs freedom() > 0. With one run beside two it is 15.9, with two a side 4.8, with
// three 3.0 standard errors: luck with few runs is paid for.
double chance_difference(const TwoMeans& means);

}  // namespace stepscope
