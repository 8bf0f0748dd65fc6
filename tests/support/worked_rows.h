// Rows of steps worked out by hand: ranks that compute, then meet in one collective at the end of the step.
#pragma once

#include <algorithm>
#include <deque>
#include <vector>

#include "analyze/attribution.h"
#include "analyze/rows.h"

namespace stepscope::testing {

struct Work {
  int rank = 0;
  float forward_ms = 10, backward_ms = 20;
};

// Rank by rank: own work, then a sync point of all (group 1) that takes `transfer_ms` when the last has come. Attributed.
inline StepRow met(uint64_t step, const std::vector<Work>& ranks, float transfer_ms = 2) {
  StepRow row;
  row.step = step;
  float last = 0;
  for (const Work& w : ranks) last = std::max(last, w.forward_ms + w.backward_ms);
  for (const Work& w : ranks) {
    Cell& cell = row.cells.emplace_back();
    cell.rank = w.rank;
    cell.ms[index(Category::kForward)] = w.forward_ms;
    cell.ms[index(Category::kBackward)] = w.backward_ms;
    cell.segments = {cell.ms, {}};
    cell.stall_ms = last - w.forward_ms - w.backward_ms + transfer_ms;
    cell.stalls = {{1, step, cell.stall_ms, 0, Category::kBackward}};
    cell.wall_ms = last + transfer_ms;
  }
  row.wall_ms = last + transfer_ms;
  attribute(row);
  return row;
}

// Keeps what it points to.
struct Played {
  std::deque<StepRow> table;
  Rows rows() const {
    Rows out;
    for (const StepRow& row : table) out.add(row, 1);
    return out;
  }
  void add(const std::vector<Work>& ranks, float transfer_ms = 2) { table.push_back(met(table.size(), ranks, transfer_ms)); }
};

}  // namespace stepscope::testing
