// Which ranks a view shows when there are too many, and which of them stand out. Pure.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "diagnose/snapshot.h"

namespace stepscope {

// Ranks that findings of severity warn or crit name as culprits.
std::set<int> culprit_ranks(const Snapshot& snapshot);

// At most `limit` ranks in rank order: culprits and ranks in a bad state first, then those that others wait for most.
std::vector<const RankStat*> ranks_to_show(const Snapshot& snapshot, size_t limit);

// "finished", "lost in backward", "exception in forward".
std::string rank_state_text(const RankStat& rank);

}  // namespace stepscope
