// Whose turn it was when the training waited for a batch: the workers of a torch DataLoader deliver in turns, batch f
// of an iterator comes from worker f mod workers, however late it is. One worker that is slower than the others shows
// as waits in nearly every turn of one of them; slow samples fall on all, or on one now and then.
//
// Turns are told from steps that follow one another, of one fetch each, within an epoch. Pure; O(rows).
#pragma once

#include <optional>

#include "analyze/rows.h"

namespace stepscope {

struct WorkerTurns {
  int worker = -1;        // whose turn the waits fall on; -1 = the epochs' beginnings were not seen
  double share = 0;       // of the waits, those in the most waited for turn of each epoch
  double late_share = 0;  // of those turns, which were waited for
  size_t turns = 0;
  double usual_share = 0;  // what the turns of one worker would have if all were alike
};

// nullopt: no stretch of steps in which every worker had its turn kLeastTurns times, or nothing was waited for.
std::optional<WorkerTurns> worker_turns(const Rows& rows, int rank, int workers);

inline constexpr size_t kLeastTurns = 4;

}  // namespace stepscope
