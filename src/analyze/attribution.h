// Who made whom wait. Splits every stall of a step into transfer and wait and fills the row's blames.
//
// Clock-free (DESIGN section 3): of the ranks in one collective the one with the shortest stall arrived last.
//   transfer = min over members of stall;  wait_i = stall_i - transfer;  caused by the member with the shortest stall.
// A rank that was late because it waited itself passes the blame on: what it had waited earlier in the step is charged
// to those it waited for (chains of groups: TP inside DP inside PP), only the rest to itself.
//
// Cost: O(stalls log stalls) per row, and as many blames as somebody waited for somebody.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "align/step_table.h"

namespace stepscope {

struct GroupInfo {
  std::string description;
  std::vector<int> ranks;  // global
};
using Groups = std::map<uint64_t, GroupInfo>;

// Attributes one row in place: cells' ms[comm_transfer], ms[straggler_wait], wait_ms, caused_ms, stalls[].transfer_ms,
// row.caused. Stalls are matched across ranks by (group, sequence); where a collective was seen by one rank only, its
// stall stays transfer (nobody to compare with). Rows of one rank: all stall is transfer.
void attribute(StepRow& row);

}  // namespace stepscope
