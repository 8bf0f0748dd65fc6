// Compares two runs: did it get slower? Pure; A is the reference.
//
// The rule is robust against noise: medians are compared, and the noise of a median comes from the spread that the run
// itself shows between its percentiles, not from a fixed band alone.
//   sigma  = (p90 - p50) / 1.2816                       the upper half of the distribution as if it were normal
//   noise  = 3 * 1.2533 * sqrt(sigma_a^2 / n_a + sigma_b^2 / n_b) / p50_a     n = steps / 4 (neighbouring steps
//   resemble
//            each other), at most kMaxIndependentSteps (more steps of one run do not average out what differs
//            between runs)
//   regression   change >=  least_change and change >  noise
//   improvement  change <= -least_change and change < -noise
//   same         |change| < least_change and noise <= least_change
//   inconclusive everything else, fewer than kMinComparedSteps steps, or jobs that are not alike (world size)
// A run that lost a rank, hung or crashed where the other did not is a regression whatever its steps took.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "diagnose/snapshot.h"

namespace stepscope {

inline constexpr uint32_t kMinComparedSteps = 20;
inline constexpr double kMaxIndependentSteps = 100;

struct CompareOptions {
  double least_change = 0.03;  // a smaller relative change of the median step is no change
};

enum class Outcome { kSame, kImprovement, kRegression, kInconclusive };
std::string_view name(Outcome outcome);

// One figure on both sides. `change` is relative to A; positive is more. Noise only where it can be told.
struct ComparedFigure {
  std::string name;  // with unit, e.g. "step_p50_ms", "backward_ms", "samples_per_s"
  std::optional<double> a, b, change, noise;
  Outcome outcome = Outcome::kInconclusive;
};

struct Comparison {
  Outcome outcome = Outcome::kInconclusive;
  std::string reason;                       // one sentence
  std::string name_a, name_b;               // of the runs
  KindWord primary_a, primary_b;            // none where a run has no primary finding
  std::vector<ComparedFigure> figures;      // the median step first, then phases, tail, throughput, memory
  std::vector<std::string> opened, closed;  // titles of warn and crit findings only in B, only in A
  std::vector<std::string> warnings;        // why the runs may not be alike
};

Comparison compare(const Snapshot& a, const Snapshot& b, const CompareOptions& options = {});

// 0 same or better, 4 regression, 3 inconclusive.
int exit_code(Outcome outcome);

struct TextOptions;  // text_options.h
struct Table;        // table.h
// The figures of both sides, for every view.
Table compare_table(const Comparison& comparison);
std::string compare_text(const Comparison& comparison, const TextOptions& options);
std::string compare_json(const Comparison& comparison);

}  // namespace stepscope
