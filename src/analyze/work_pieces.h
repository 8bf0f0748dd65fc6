// A cell's own time as pieces in the order they were worked on: each segment's categories one after the other, backward
// cut where its gradient buckets were issued. What of a piece was spent off the core (asleep, not short of one) is told
// by the thread's CPU time of the step: it is where the rank takes longer than the quickest of the others in the same
// piece, else in what waits by nature, else spread evenly.
//
// Pure. O(ranks × pieces).
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "analyze/replay_row.h"

namespace stepscope {

// The same piece on every rank and in every step.
struct PieceKey {
  uint16_t segment = 0, category = 0, part = 0;
  auto operator<=>(const PieceKey&) const = default;
};

struct WorkPiece {
  PieceKey key;
  double ms = 0, idle_ms = 0;
  double excess_ms = 0;  // beyond the least of the ranks that have this piece in the row

  bool unsure = false;  // when within the piece the rank computes is not known

  double busy_ms() const { return ms - idle_ms; }
};

using CellPieces = std::vector<WorkPiece>;

// By cell of the row.
std::vector<CellPieces> pieces_of(const StepRow& row, const RowSegments& parts);
// Takes `cut` from the pieces of each category: first what is beyond the quickest rank, its idle time before its work.
// What is negative of it is added as work on a core, to the category's pieces or as one of its own in the first
// segment.
void take_away(CellPieces& pieces, const LedgerMs& cut);

}  // namespace stepscope
