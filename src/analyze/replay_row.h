// One step of all ranks replayed: who begins each of its segments when, and where the clocks stand at its end.
// Pure; internal to the what-if replays (analyze/whatif.h, analyze/shared_cores.h).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "align/step_table.h"

namespace stepscope {

struct Lane {
  int rank = -1;
  size_t participant = 0;  // of its clock
  std::vector<float> segments;
  std::span<const CellStall> stalls;
  size_t next = 0;             // next stall
  std::vector<double> begins;  // of the segments, filled by replay_row()
};

// What is left of a cell without detail: its own time, then one sync point of all that stalled.
struct WholeCell {
  LedgerMs own;
  CellStall sync_point;
  explicit WholeCell(const Cell& cell);
};

// The segments and stalls of a row's cells, those of rows without detail included. Keeps references to the row.
class RowSegments {
 public:
  explicit RowSegments(const StepRow& row);
  std::span<const LedgerMs> segments(size_t cell) const;
  std::span<const CellStall> stalls(size_t cell) const;

 private:
  const StepRow* row_;
  std::vector<WholeCell> whole_;
};

// `clock` advances. Sync points happen when every member that still has it ahead stands at it; where they never fit
// (lossy rows) the rest is one sync point at the end of the step.
void replay_row(std::vector<Lane>& lanes, std::vector<double>& clock);

}  // namespace stepscope
