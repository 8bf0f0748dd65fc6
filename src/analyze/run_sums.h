// Exact sums over all closed rows of a run, whatever the table still keeps: ledgers and wall time. A plain value;
// O(seen ranks) memory, O(ranks × categories) per row.
#pragma once

#include <array>
#include <map>

#include "align/step_table.h"

namespace stepscope {

struct RankSums {
  std::array<double, kCategoryCount> ms{},
      host_ms{};  // main axis; the host's, waits split as on the main axis where it is the host
  double wall_ms = 0, host_wall_ms = 0;
  uint64_t gpu_steps = 0;
  uint64_t steps = 0;
  double samples = 0, tokens = 0, flops = 0;
};

struct RunSums {
  std::map<int, RankSums> ranks;  // those with a step
  double wall_ms = 0;             // of the job: per step the longest rank

  void add(const StepRow& row);
  // A rank that was filled into a row which was added without it.
  void add_late(const StepRow& row, const Cell& cell);

 private:
  void add(const Cell& cell);
};

}  // namespace stepscope
