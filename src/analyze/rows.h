// A selection of rows for one analysis: pointers into the step table, in step order. `weight` rows of the run stand
// behind each (thinned history).
#pragma once

#include <cstdint>
#include <vector>

#include "align/step_table.h"
#include "analyze/robust.h"

namespace stepscope {

struct Rows {
  std::vector<const StepRow*> rows;
  std::vector<float> weights;

  size_t size() const { return rows.size(); }
  bool empty() const { return rows.empty(); }
  // Ranks that were seen in at least one row, ascending. O(cells), O(cells log ranks) where they change from row to
  // row.
  std::vector<int> seen() const;
  void add(const StepRow& row, float weight) {
    rows.push_back(&row);
    weights.push_back(weight);
  }
  // Wall time of the selection, ms: sum over rows of the longest rank.
  double wall_ms() const;
  Rows slice(size_t from, size_t to) const;
};

// Everything the table still knows, oldest first.
Rows all_rows(const StepTable& table);
// The newest `count` rows.
Rows newest_rows(const StepTable& table, size_t count);
// At most `count` of them, evenly chosen, the newest among them; their weights grow.
Rows thinned(const Rows& rows, size_t count);
// Rows without any of `tags`.
Rows without(const Rows& rows, uint32_t tags);

}  // namespace stepscope
