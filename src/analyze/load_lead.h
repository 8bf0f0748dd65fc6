// What loader workers have ready ahead of the training, and how long that hides a loader which is too slow. Pure.
#pragma once

#include <cstddef>

#include "analyze/rows.h"

namespace stepscope {

// Batches that workers have in flight, at most; 0 without workers. O(cells).
size_t batches_ahead(const Rows& rows);

// A loader too slow from the start is not noticed before the batches that were loaded ahead are used up. Waiting in the
// end for `share` of the time, it makes 1 - share of a batch per step meanwhile, so that the lead shrinks by `share` of
// a batch each: steps until the first wait. 0 where nothing is loaded ahead; shares below 0.05 count as that.
size_t steps_hidden_by_queue(size_t ahead, double share);

}  // namespace stepscope
