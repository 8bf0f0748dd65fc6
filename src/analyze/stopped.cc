#include "analyze/stopped.h"

namespace stepscope {

namespace {

// The members' parts of one collective, from transfer to waiting. Returns whether there was a member.
bool charge_others(StepRow& row, size_t rank, uint64_t group, uint64_t sequence) {
  const size_t n = row.cells.size();
  bool any = false;
  for (size_t r = 0; r < n; ++r) {
    if (r == rank) continue;
    Cell& cell = row.cells[r];
    for (CellStall& part : cell.stalls) {
      if (part.group != group || part.sequence != sequence || part.transfer_ms <= 0) continue;
      any = true;
      cell.ms[index(Category::kCommTransfer)] -= part.transfer_ms;
      cell.ms[index(Category::kStragglerWait)] += part.transfer_ms;
      cell.wait_ms += part.transfer_ms;
      if (row.caused.empty()) row.caused.assign(n * n, 0);
      row.caused[rank * n + r] += part.transfer_ms;
      row.cells[rank].caused_ms += part.transfer_ms;
      part.transfer_ms = 0;
    }
  }
  return any;
}

}  // namespace

void charge_stopped(StepRow& row, int rank) {
  if (rank < 0 || static_cast<size_t>(rank) >= row.cells.size()) return;
  Cell& cell = row.cells[static_cast<size_t>(rank)];
  if (!cell.present || cell.gpu) return;
  for (size_t j = 0; j < cell.stalls.size(); ++j) {
    CellStall& stall = cell.stalls[j];
    const float ms = stall.transfer_ms;
    if (ms < kStoppedLeastMs || !charge_others(row, static_cast<size_t>(rank), stall.group, stall.sequence)) continue;
    cell.ms[index(Category::kCommTransfer)] -= ms;
    cell.ms[index(Category::kHostPause)] += ms;
    if (j < cell.segments.size()) cell.segments[j][index(Category::kHostPause)] += ms;
    cell.stall_ms -= ms;
    stall.stall_ms -= ms;
    stall.transfer_ms = 0;
  }
}

}  // namespace stepscope
