// Whether the ranks count their steps alike. An operation of a group is the same one on all of its members, so a rank
// whose step of some number issues nothing but operations that come after another's step of that number has counted a
// step less: it left an optimizer's step out, or the other took one by itself. Its steps from there on belong one row
// further down.
//
// A plain value, for the rows that are not closed yet. Messages between two ranks are no evidence. Cost: per step of a
// rank the groups that it used; per row a look at them. Where that happens in more than kMostShare of the rows, the
// ranks do not run one loop, and nothing is moved any more.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "align/rank_step.h"

namespace stepscope {

class StepAlignment {
 public:
  static constexpr uint64_t kLeastMoves = 32;
  static constexpr double kMostShare = 0.25;

  // What the rank's step in this row issued.
  void note(int rank, uint64_t row, const std::vector<CollectiveIssue>& issues);
  // Closes the row for comparisons. Returns the ranks whose step here belongs further down, ascending; what was noted
  // of them from this row on has been moved by one.
  std::vector<int> settle(uint64_t row);

 private:
  struct Span {
    uint64_t group = 0, first = 0, end = 0;  // sequences [first, end)
  };
  using Spans = std::vector<Span>;
  std::vector<int> beyond(const std::map<int, Spans>& ranks) const;
  void move(int rank, uint64_t row);

  std::map<uint64_t, std::map<int, Spans>> open_;  // by row, by rank
  uint64_t rows_ = 0, moved_in_ = 0;               // settled; of these with a move
  bool one_loop_ = true;
};

}  // namespace stepscope
