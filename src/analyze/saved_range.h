// What a change would save, as a range of shares of wall time.
//
//   share   the replay without the change's cost (analyze/whatif.h)
//   high    the most the change may bring; and what is left runs quicker than it did beside the fault: a core that was
//           idle, or at other work, comes back with cold caches
//   low     the least it may bring, with the company that ranks would have then (analyze/shared_cores.h), slowed down
//   as
//           this run's overlaps tell (analyze/contention.h); where they do not tell, as much as the host's cores allow
//           (analyze/host_load.h). Never quicker than the host's cores can do all that is left to do
//
// Both ends are then moved apart by how much the saving differs between stretches of the run (jackknife), by what the
// replay does not catch, and where processes of others use the host by the time that ranks wait for a core: it may go,
// or double. Steps on a device depend neither on cores nor on strangers.
//
// Pure. Costs two replays, one more for each end that has a change of its own, and some twenty of at most `most_rows`
// rows for each change at the low end.
#pragma once

#include <optional>

#include "analyze/core_sharing.h"
#include "analyze/whatif.h"

namespace stepscope {

struct SavedRange {
  double share = 0, low = 0, high = 0;  // low <= share <= high
  bool contention_told = true;          // else `low` rests on the host's cores alone
  bool strangers = false;               // processes of others made the range wider
  bool ends_differ = false;             // what Change::least and Change::most suppose did
  bool cores_full = false;              // the host's cores did
};

inline constexpr size_t kMostRangeRows = 256, kLiveRangeRows = 32;

// Not known as in saved_share(). Cores are looked at in `most_rows` of the rows.
std::optional<SavedRange> saved_range(const Rows& rows, const Change& change, const CoreSharing& sharing,
                                      size_t most_rows = kMostRangeRows);

}  // namespace stepscope
