// Who made whom wait. Splits every stall of a step into transfer and wait and fills the row's blames.
//
// Clock-free (docs/design.md, Attribution): of the ranks in one collective the one with the shortest stall arrived
// last.
//   all members seen        transfer = min over members of stall;  wait_i = stall_i - transfer, for the one with the
//   shortest some members not seen   wait_i as before, among those seen;  the common part (the minimum) is unresolved:
//   transfer or
//                           waiting for a rank that nobody saw
// Stalls meet by SyncPointKey: collectives of a group, messages of a pair. Who the members are is known from the
// process groups. Of a group that nobody named it is not: then every rank of the job must have been seen in the step.
// Waits that were only counted are one sync point of all ranks; in a job that has smaller groups they may be anybody's,
// are unresolved as a whole and nobody is charged with them. A rank that was late because it waited itself passes the
// blame on: what it had waited earlier in the step is charged to those it waited for (chains of groups: TP inside DP
// inside PP), only the rest to itself.
//
// Pure. Cost: O(stalls log stalls) per row, and as many blames as somebody waited for somebody.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "align/step_table.h"

namespace stepscope {

struct GroupInfo {
  std::string description;
  std::vector<int> ranks;  // global; empty = not told
  size_t size = 0;         // of a communicator whose ranks were not told; 0 = not told

  size_t members() const { return ranks.empty() ? size : ranks.size(); }
};
using Groups = std::map<uint64_t, GroupInfo>;

// Attributes one row in place: cells' ms[comm_transfer], ms[straggler_wait], ms[unresolved], wait_ms, caused_ms, parts
// of stalls, row.caused; on a GPU axis also the unresolved share of the host's stalls. `world_size`: ranks of the job,
// seen or not; 0 = as many as the row has cells.
void attribute(StepRow& row, const Groups& groups = {}, int world_size = 0);

// Ranks of a group of the job; 0 = nobody told.
size_t group_size(const Groups& groups, uint64_t id, int world_size);

}  // namespace stepscope
