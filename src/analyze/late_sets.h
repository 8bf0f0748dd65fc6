// Ranks that stand apart from the others by what their own work takes: candidates for "late together"
// (analyze/set_rows.h says whether they are). Pure. O(rows × ranks × categories + blocks × ranks log ranks).
#pragma once

#include <cstddef>
#include <vector>

#include "analyze/rows.h"

namespace stepscope {

// Sets of two ranks or more, at most half of those seen. In a block of rows (at least `block_rows`) the ranks' medians
// of own time fall into two parts with a gap between them of at least half of what the parts' middles differ by, and
// they fall into the same parts in the block's even and in its odd rows: ranks that are late by chance are others in
// each half. The set that stands apart in most blocks first.
std::vector<std::vector<int>> late_sets(const Rows& rows, size_t block_rows);

}  // namespace stepscope
