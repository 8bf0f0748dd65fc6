// Where the ranks of one step meet: all that each waits and transfers, drawn as one collective. Pure.
//
// A row of the run file knows how long a rank worked and how long it stood, not when. The usual order of a step places
// the stalls behind backward: a rank arrives when its work up to there is done, and leaves when its stalls are over.
// Only where the ranks then leave together (within kTogether of the step) is that how it was; else there is no meeting
// to be drawn, and none is made up.
#pragma once

#include <optional>

#include "align/step_table.h"

namespace stepscope {

inline constexpr double kTogether = 0.05;

struct StepMeeting {
  float first_ms = 0, last_ms = 0;  // arrivals, from the step's begin on
  float end_ms = 0;                 // the ranks leave
  int32_t last_rank = -1;           // to arrive: the critical path goes through it until then,
  int32_t tail_rank = -1;           // and from the end on through the one that takes longest for the rest
};

// None with fewer than two ranks, or where one waits for ranks that were not seen. O(ranks).
std::optional<StepMeeting> meeting_of(const StepRow& row);

}  // namespace stepscope
