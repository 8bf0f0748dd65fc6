// The sync points of a row: which ranks met in what, and how long each stood there. Refers to the row's stalls.
// Cost: O(stalls log stalls).
#pragma once

#include <cstddef>
#include <vector>

#include "align/step_table.h"

namespace stepscope {

// One collective as the ranks of a row saw it; `at`: the cell in the row. Several stalls on one collective (a pause cut
// it in two) are one.
struct SyncPoint {
  struct Participant {
    int at, rank;
    float stall_ms;
    std::vector<CellStall*> parts;
  };
  SyncPointKey key;
  std::vector<Participant> participants;  // by rank
  size_t order = 0;                       // position in the step, of the rank that saw it latest in its list

  // Who stood there for the shortest time: the last to arrive.
  const Participant& last() const;
};

// In the order of the step.
std::vector<SyncPoint> sync_points_of(StepRow& row);

}  // namespace stepscope
