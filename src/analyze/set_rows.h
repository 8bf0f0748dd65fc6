// Steps in which each set of ranks stands in the place of its ranks, so that what is asked of ranks
// (analyze/late_blocks.h) can be asked of sets: ranks that are late together take turns at being the last, so that none
// of them passes for a straggler. Sets are the ranks of each host, or some late ranks and the others
// (analyze/late_sets.h).
//
//   own time   per category the least of the set's ranks: what not all of them have is no matter of the set; or the
//              median of those that a set is compared with
//   caused     what ranks of other sets waited for any of its ranks; waiting within a set is left out. A set waits as
//              long as its ranks do on the mean
//
// Pure. O(cells × categories + blames), with a median O(cells log cells × categories).
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "analyze/rows.h"

namespace stepscope {

struct RankSets {
  enum class OwnTime { kLeast, kMedian };

  std::map<int, size_t> set_of;   // by rank; ranks that are in none are left out
  std::vector<OwnTime> own_time;  // by set

  void add(int rank, size_t set) { set_of[rank] = set; }
};

class SetRows {
 public:
  // In its rows a set stands as the rank of its number.
  SetRows(const Rows& rows, const RankSets& sets);
  SetRows(const SetRows&) = delete;
  SetRows& operator=(const SetRows&) = delete;

  const Rows& rows() const { return rows_; }
  // The steps of ranks behind a selection of these.
  Rows behind(const Rows& selection) const;

 private:
  Rows of_ranks_;
  std::vector<StepRow> made_;
  Rows rows_;
};

}  // namespace stepscope
