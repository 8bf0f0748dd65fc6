// Where a fault begins in a series of step figures, so that a figure which comes in bursts counts and a single high
// value does not.
//
// A value above the threshold begins it when the mean of the values from it on (the next 8, each counted as at most 8
// thresholds, values that are not known or far below left out) is above the threshold as well, of a figure that is high
// in every step by half as much again; and when there is another high value among the 8 that follow after 4. A cause
// that was there from the start may show a little late: within its first two rounds, or `late` steps after.
//
// Pure. O(values up to the onset), each looked at a few times.
#pragma once

#include <cstddef>
#include <functional>

namespace stepscope {

// Index of the first value of the fault among `count` values; 0 also where it was there from the start, or never is.
size_t onset_index(size_t count, double threshold, const std::function<double(size_t)>& value, size_t late = 0);

}  // namespace stepscope
