#include "analyze/run_sums.h"

namespace stepscope {

void RunSums::add(const StepRow& row) {
  if (ranks.size() < row.cells.size()) ranks.resize(row.cells.size());
  wall_ms += row.wall_ms;
  for (size_t r = 0; r < row.cells.size(); ++r) {
    const Cell& cell = row.cells[r];
    if (!cell.present) continue;
    RankSums& sums = ranks[r];
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
}

}  // namespace stepscope
