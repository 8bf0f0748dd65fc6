#include "analyze/run_sums.h"

#include <algorithm>

namespace stepscope {

void RunSums::add(const Cell& cell) {
  RankSums& sums = ranks[cell.rank];
  for (size_t c = 0; c < kCategoryCount; ++c) {
    sums.ms[c] += cell.ms[c];
    sums.host_ms[c] += cell.gpu ? cell.host_ms[c] : cell.ms[c];
  }
  sums.wall_ms += cell.wall_ms;
  sums.host_wall_ms += cell.host_wall_ms;
  sums.gpu_steps += cell.gpu ? 1 : 0;
  sums.samples += cell.samples;
  sums.tokens += cell.tokens;
  sums.flops += cell.flops;
  ++sums.steps;
}

void RunSums::add(const StepRow& row) {
  wall_ms += row.wall_ms;
  for (const Cell& cell : row.cells) add(cell);
}

void RunSums::add_late(const StepRow& row, const Cell& cell) {
  float before_ms = 0;
  for (const Cell& other : row.cells)
    if (&other != &cell) before_ms = std::max(before_ms, other.wall_ms);
  wall_ms += std::max(0.0f, cell.wall_ms - before_ms);
  add(cell);
}

}  // namespace stepscope
