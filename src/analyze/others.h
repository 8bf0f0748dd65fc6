// A figure of all ranks that were seen in one row, sorted once: the median of the others then costs a look per rank, so
// that comparing every rank of a row is O(ranks log ranks).
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "align/step_table.h"

namespace stepscope {

class Others {
 public:
  // `figure` of every rank that was seen; kept storage, to be used for row after row.
  template <class Figure>
  void look(const StepRow& row, Figure figure) {
    sorted_.clear();
    for (const Cell& cell : row.cells) sorted_.push_back(figure(cell));
    std::sort(sorted_.begin(), sorted_.end());
  }

  // Median (as in robust.h) of the ranks but one, whose own figure is `own`; NaN when there are no others.
  double median_without(double own) const {
    if (sorted_.size() < 2) return std::numeric_limits<double>::quiet_NaN();
    const size_t others = sorted_.size() - 1;
    const auto out = static_cast<size_t>(std::lower_bound(sorted_.begin(), sorted_.end(), own) - sorted_.begin());
    const auto at = [&](size_t i) { return sorted_[i < out ? i : i + 1]; };
    const size_t low = (others - 1) / 2;
    return others % 2 ? at(low) : 0.5 * (at(low) + at(low + 1));
  }

 private:
  std::vector<double> sorted_;
};

}  // namespace stepscope
