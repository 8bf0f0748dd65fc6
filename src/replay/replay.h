// The replay: recorded operations split into own work and waiting, and a step rebuilt from work and dependencies alone.
// Pure; one pass over names × lanes per replay, inner loops over contiguous lanes.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "replay/op_graph.h"
#include "replay/op_trace.h"

namespace stepscope::replay {

struct Work {
  Matrix work_s;                 // names × lanes
  size_t impossible = 0;         // operations that end 10 ms or more before their peers were ready; their work is 0
  double least_s = 0;            // the smallest split before that; >= 0 when none was negative
  std::optional<OpIndex> worst;  // the operation of the smallest, when negative
};

// Own work: the duration, or for an operation that meets others its end minus the latest start of those it meets.
Work split_work(const OpTrace& trace, const OpGraph& graph);

// Largest end of any optimizer per step, in seconds from the start of the step, in the order of trace.steps. `gap_s`
// (nullable) is added between what an operation waits for and its start.
std::vector<double> replay_steps_s(const OpTrace& trace, const OpGraph& graph, const Matrix& work_s,
                                   const Matrix* gap_s = nullptr);

// Latest end minus earliest start of all operations, per step.
std::vector<double> recorded_steps_s(const OpTrace& trace);

// Self-test: the replay with the recorded gaps must give the recorded times again. The largest difference over all
// operations, in seconds. It grows with gaps of -10 ms and less, which are set to 0.
double closure_error_s(const OpTrace& trace, const OpGraph& graph, const Work& work);

}  // namespace stepscope::replay
