// Device memory of a rank as the rules about it see it: its figures over a selection of rows, and the room on its
// device. Pure.
#pragma once

#include <optional>
#include <vector>

#include "diagnose/device_room.h"

namespace stepscope {

struct RuleInput;

struct RankMemory {
  int rank = -1;
  double allocated_bytes = 0;        // newest reading, near the top of the step where it is read there
  double reserved_bytes = 0;         // newest
  double peak_bytes = 0;             // the most ever allocated
  std::optional<double> held_bytes;  // newest of what outlives a step
  std::optional<double> split_bytes,
      split_of_bytes;          // near the top: in split blocks, and reserved; medians, newest half
  double capacity_bytes = 0;   // 0 = not known
  double own_extra_bytes = 0;  // of its process beyond what torch reserved: context, libraries
  double others_bytes = 0, other_ranks_bytes = 0;
  std::vector<DeviceTenant> others;  // largest first

  // What is needed at the peak, everybody counted. 0 where the capacity is not known.
  double demand_share() const;
  double share(double bytes) const { return capacity_bytes > 0 ? bytes / capacity_bytes : 0; }
};

// Of the ranks with a reading in the selection, by rank. O(cells).
std::vector<RankMemory> memory_of_ranks(const RuleInput& in);

}  // namespace stepscope
