// Compares two runs, or several runs a side: did it get slower? Pure; A is the reference.
//
// The medians of the steps are compared, of several runs a side their means. What a change is judged by is its noise,
// relative to A (report/run_noise.h):
//   several runs a side   what runs of one side differ by, as measured: more comes by chance in 2 of 100 comparisons of
//                         equal sides
//   one run a side        3 standard errors, of both medians and of runs that differ by kAssumedRunNoise, or by as much
//   as
//                         other programs took the cores from the ranks
//   regression   change >=  least_change and change >  noise
//   improvement  change <= -least_change and change < -noise
//   same         |change| < least_change and |change| + noise < 2 * least_change: twice that change is ruled out
//   inconclusive everything else, no run of a side with kMinComparedSteps steps, or jobs that are not alike (world
//   size)
// A side in which a run lost a rank, hung or crashed where none of the other side did is a regression whatever its
// steps took.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "diagnose/snapshot.h"

namespace stepscope {

inline constexpr uint32_t kMinComparedSteps = 20;
inline constexpr double kAssumedRunNoise = 0.01;  // standard deviation from run to run where one run cannot tell it
inline constexpr double kPairErrors = 3;

struct CompareOptions {
  double least_change = 0.03;  // a smaller relative change of the median step is no change
};

enum class Outcome { kSame, kImprovement, kRegression, kInconclusive };
std::string_view name(Outcome outcome);

// One figure on both sides, of several runs the mean. `change` is relative to A; positive is more. Noise only where it
// can be told: of several runs a side for every figure, else for those that follow the step.
struct ComparedFigure {
  std::string name;  // with unit, e.g. "step_p50_ms", "backward_ms", "samples_per_s"
  std::optional<double> a, b, change, noise;
  Outcome outcome = Outcome::kInconclusive;
};

struct ComparedRun {
  std::string name;
  KindWord primary;  // none where the run has no primary finding
  std::optional<double> step_p50_ms;
};

struct ComparedSide {
  std::vector<ComparedRun> runs;

  std::string name() const;  // of the run; of several all, with commas
  KindWord primary() const;  // the most frequent one
};

struct Comparison {
  Outcome outcome = Outcome::kInconclusive;
  std::string reason;  // one sentence
  ComparedSide a, b;
  std::optional<double> run_noise;          // standard deviation from run to run, relative to A; none: one run a side
  std::vector<ComparedFigure> figures;      // the median step first, then phases, tail, throughput, memory
  std::vector<std::string> opened, closed;  // titles of warn and crit findings of most runs of B, of A, alone
  std::vector<std::string> warnings;        // why the runs may not be alike
};

// Neither side may be empty.
Comparison compare(std::span<const Snapshot> a, std::span<const Snapshot> b, const CompareOptions& options = {});
Comparison compare(const Snapshot& a, const Snapshot& b, const CompareOptions& options = {});

// 0 same or better, 4 regression, 3 inconclusive.
int exit_code(Outcome outcome);

struct TextOptions;  // text_options.h
struct Table;        // table.h
// The figures of both sides, for every view.
Table compare_table(const Comparison& comparison);
std::string compare_text(const Comparison& comparison, const TextOptions& options);
// For a pull request: the verdict, the table, and what changed beside the figures.
std::string compare_markdown(const Comparison& comparison);
std::string compare_json(const Comparison& comparison);

}  // namespace stepscope
