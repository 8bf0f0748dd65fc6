// How much slower steps are because of stragglers, and who carries it: the figures of docs/whatif.md, each from a
// replay in which some operations keep their recorded work and the rest take the work of an average operation.
//
// Pure. About pp + dp + 17 replays of the trace. All figures but `launch` compare replay with replay.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "replay/op_graph.h"
#include "replay/op_trace.h"
#include "replay/replay.h"

namespace stepscope::replay {

// Everything is ideal but one group of operations.
struct GroupFigure {
  std::string name;             // "backward-compute", "stage 0", "dp rank 3"
  double slowdown = 1;          // T(group recorded) / T(ideal), means over the steps
  std::vector<double> by_step;  // the same of each step
};

struct WorkerFigure {
  int rank = 0, stage = 0, dp_rank = 0;
  double slowdown = 1;  // least of its stage's and its data-parallel rank's
};

// (T - T(these made ideal)) / (T - T(ideal)): 1 = making these ideal gives back all. Null where it says nothing.
struct Shares {
  std::optional<double> slowest_workers;  // M_W; null with one worker
  std::optional<double> last_stage;       // M_S; null with one stage
  std::optional<double> microbatches;     // M_V: computes set to the mean of their kind on their worker
  std::optional<double> communication;    // M_C: every communication made ideal
};

struct StepFigure {
  int step = 0;
  double recorded_s = 0, replayed_s = 0, slowdown = 1;
};

struct Slowdown {
  double recorded_s = 0, replayed_s = 0, ideal_s = 0;  // means over the steps
  double slowdown = 1;                                 // S = replayed / ideal
  double launch = 1;                                   // recorded / replayed: what unrecorded gaps cost
  Shares shares;
  std::vector<GroupFigure> by_type, by_stage, by_dp_rank;  // by_type: slowest first
  std::vector<WorkerFigure> workers;                       // slowest first, ties to the lower rank
  size_t slowest_count = 0;                                // of `workers`, those that slowest_workers made ideal
  std::vector<StepFigure> steps;
  std::array<std::optional<double>, kOpTypes> ideal_s_by_type;
  size_t operations = 0;
  size_t impossible_splits = 0;
  double least_split_s = 0;  // below 0: clocks or log disagree by that much
  std::string worst_split;   // its operation, "" when none is below 0
  double closure_error_s = 0;
};

// Failure: one line naming `where`; a trace without an optimizer has no step times.
Result<Slowdown> judge_slowdown(const OpTrace& trace, const std::string& where);

}  // namespace stepscope::replay
