// What-if: the steps replayed with something taken away. Own work and the order of sync points are replayed, waiting is
// recomputed: a rank's clock advances by its own segments; at a sync point all members go on when the last has arrived,
// plus the transfer. Sync points are matched by SyncPointKey; a row whose sync points do not fit, or that no longer has
// its detail, is replayed as one sync point at its end.
//
// Pure. O(rows × ranks × stalls). The saving is relative to the replay without a change, not to the measured time, so
// that what the replay cannot explain cancels.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "analyze/rows.h"

namespace stepscope {

// Milliseconds to take away from each category of own time of one rank in one row (index into Rows; a cell of it);
// negative: to add.
using Reduction = std::function<LedgerMs(size_t row, const Cell& cell)>;

// What mending a fault may bring, from the least to the most that is plausible.
struct Change {
  Reduction usual = nullptr;
  Reduction least = nullptr, most = nullptr;  // null: as usual
  std::string why_wide = "";                  // what `least` and `most` suppose, in words
  bool goes_on = false;                       // what is taken away is done elsewhere on the host, beside the ranks
};

// Takes all of a category away, or `ms` of it.
Reduction removal_of(Category category);
Reduction removal_of(Category category, std::function<double(size_t row, const Cell& cell)> ms);

// Wall time of each row, times its weight, when `reduce` is taken away (null: nothing).
std::vector<double> replayed_rows_ms(const Rows& rows, const Reduction& reduce);
// Wall time of the rows when `reduce` is taken away (null: nothing).
double replay_ms(const Rows& rows, const Reduction& reduce);

// Share of the wall time in steps in which somebody waited for ranks that were not seen.
double half_seen_share(const Rows& rows);
// Share of wall time saved by `reduce`: 1 - replay(with) / replay(without); 0 when nothing is gained. Not known where
// ranks that were not seen take part in more than kMostHalfSeenShare of the time: they may be as late as the one that
// is mended.
inline constexpr double kMostHalfSeenShare = 0.2;
std::optional<double> saved_share(const Rows& rows, const Reduction& reduce);

}  // namespace stepscope
