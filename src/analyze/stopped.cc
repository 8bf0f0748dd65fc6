#include "analyze/stopped.h"

namespace stepscope {

namespace {

// The members' parts of one collective, from transfer to waiting. Returns whether there was a member.
bool charge_others(StepRow& row, Cell& stopped, uint64_t group, uint64_t sequence) {
  bool any = false;
  for (Cell& cell : row.cells) {
    if (&cell == &stopped) continue;
    for (CellStall& part : cell.stalls) {
      if (part.group != group || part.sequence != sequence || part.transfer_ms <= 0) continue;
      any = true;
      cell.ms[index(Category::kCommTransfer)] -= part.transfer_ms;
      cell.ms[index(Category::kStragglerWait)] += part.transfer_ms;
      cell.wait_ms += part.transfer_ms;
      row.caused.push_back({stopped.rank, cell.rank, part.transfer_ms});
      stopped.caused_ms += part.transfer_ms;
      part.transfer_ms = 0;
    }
  }
  return any;
}

}  // namespace

void charge_stopped(StepRow& row, int rank) {
  Cell* found = row.find(rank);
  if (!found || found->gpu) return;
  Cell& cell = *found;
  for (size_t j = 0; j < cell.stalls.size(); ++j) {
    CellStall& stall = cell.stalls[j];
    const float ms = stall.transfer_ms;
    if (ms < kStoppedLeastMs || !charge_others(row, cell, stall.group, stall.sequence)) continue;
    cell.ms[index(Category::kCommTransfer)] -= ms;
    cell.ms[index(Category::kHostPause)] += ms;
    if (j < cell.segments.size()) cell.segments[j][index(Category::kHostPause)] += ms;
    cell.stall_ms -= ms;
    stall.stall_ms -= ms;
    stall.transfer_ms = 0;
  }
  settle(row.caused);
}

}  // namespace stepscope
