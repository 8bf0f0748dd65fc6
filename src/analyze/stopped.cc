#include "analyze/stopped.h"

namespace stepscope {

namespace {

// What the members of the stall's sync point waited for together is no transfer: they waited for the stopped rank.
void take_common(Cell& cell, CellStall& stall) {
  cell.ms[index(Category::kCommTransfer)] -= stall.transfer_ms;
  cell.ms[index(Category::kUnresolved)] -= stall.unresolved_ms;
  stall.transfer_ms = stall.unresolved_ms = 0;
}

// The members' parts of one collective, from transfer to waiting. Returns whether there was a member.
bool charge_others(StepRow& row, Cell& stopped, const SyncPointKey& sync_point) {
  bool any = false;
  for (Cell& cell : row.cells) {
    if (&cell == &stopped) continue;
    for (CellStall& part : cell.stalls) {
      const float ms = part.transfer_ms + part.unresolved_ms;
      if (part.key(cell.rank) != sync_point || ms <= 0) continue;
      any = true;
      take_common(cell, part);
      cell.ms[index(Category::kStragglerWait)] += ms;
      cell.wait_ms += ms;
      row.caused.push_back({stopped.rank, cell.rank, ms});
      stopped.caused_ms += ms;
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
    const float ms = stall.transfer_ms + stall.unresolved_ms;
    if (ms < kStoppedLeastMs || !charge_others(row, cell, stall.key(rank))) continue;
    take_common(cell, stall);
    cell.ms[index(Category::kHostPause)] += ms;
    if (j < cell.segments.size()) cell.segments[j][index(Category::kHostPause)] += ms;
    cell.stall_ms -= ms;
    stall.stall_ms -= ms;
  }
  settle(row.caused);
}

}  // namespace stepscope
