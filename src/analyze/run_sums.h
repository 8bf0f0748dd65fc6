// Exact sums over all closed rows of a run, whatever the table still keeps: ledgers and wall time. A plain value; O(ranks)
// memory, O(ranks × categories) per row.
#pragma once

#include <array>
#include <vector>

#include "align/step_table.h"

namespace stepscope {

struct RankSums {
  std::array<double, kCategoryCount> ms{}, host_ms{};  // main axis; the host's, waits split as on the main axis where it is the host
  double wall_ms = 0, host_wall_ms = 0;
  uint32_t gpu_steps = 0;
  uint32_t steps = 0;
  double samples = 0, tokens = 0, flops = 0;
};

struct RunSums {
  std::vector<RankSums> ranks;
  double wall_ms = 0;  // of the job: per step the longest rank

  void add(const StepRow& row);
};

}  // namespace stepscope
