// The table of ranks: one row per rank, one column per quantity, shown by text, HTML and the terminal view. Pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "diagnose/snapshot.h"
#include "report/table.h"

namespace stepscope {

struct RankColumn {
  Column column;
  std::string (*cell)(const Snapshot&, const RankStat&);
  std::optional<double> (*key)(const Snapshot&, const RankStat&);  // what it is sorted by; null: by its cell
  bool (*known)(const Snapshot&, const RankStat&) = nullptr;       // null: always shown

  // In the order of this column: figures from the highest down, what was not measured last; words ascending.
  bool before(const Snapshot& snapshot, const RankStat& a, const RankStat& b) const;
};

// The columns that have something to say of `ranks`: one of dashes alone, or the host of a job on one host, tells
// nothing.
std::vector<const RankColumn*> rank_columns(const Snapshot& snapshot, std::span<const RankStat* const> ranks);

// Rows in the order of `ranks`; culprits are marked.
Table rank_table(const Snapshot& snapshot, std::span<const RankStat* const> ranks,
                 std::span<const RankColumn* const> columns);

}  // namespace stepscope
