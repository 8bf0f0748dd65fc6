// The what-if replay on shared cores: what is won by taking work or waiting away is partly lost again, because ranks
// that wait less compute beside each other more, and slow each other down. Each piece's work is what it took, less what
// the ranks beside it cost it (1 + k × ranks); replayed, it takes its work times the company it then has, found by
// repetition. Only work on a core is slowed down, and only by ranks of the same host.
//
// Pure. O(kRounds × rows × (ranks × pieces log pieces + stalls)), rows bounded.
#pragma once

#include <vector>

#include "analyze/core_sharing.h"
#include "analyze/whatif.h"

namespace stepscope {

// By how much longer the rows take on shared cores once `reduce` is taken away than without contention: >= 1 where more
// ranks then compute at once. `per_peer`: k by host of `sharing`. Replays at most `most_rows` of the rows.
double shared_cores_factor(const Rows& rows, const Reduction& reduce, const CoreSharing& sharing,
                           const std::vector<double>& per_peer, size_t most_rows = 256);

}  // namespace stepscope
