// Rank × step: how a rank's own time in a step compares with what is usual. Pure; cost linear in the newest steps of
// all ranks, whatever the number of rows.
#pragma once

#include <vector>

#include "report/page.h"

namespace stepscope {

// Indices into snapshot.ranks: all, or the `limit` slowest on average, in the order of ranks.
std::vector<size_t> heat_rows(const Snapshot& snapshot, size_t limit);

// One row for each of `rows`; none where no own time is known.
HeatMap heat_map(const Snapshot& snapshot, const std::vector<size_t>& rows);

// The lower one: where half of the ranks are slow, the other half is the measure. 0 for none.
double lower_median_of(std::vector<double> values);

}  // namespace stepscope
