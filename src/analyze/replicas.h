// Which ranks are replicas of each other, by a figure that replicas share: the gradient norm after the gradients were
// averaged, or the learning rate. Who has the same one as whom is learned in the first steps (with tensor or pipeline
// parallel ranks only those of one data parallel group); a replica whose figure differs from then on no longer trains
// the same model. Below, "norm" is that figure.
//
// A plain value, fed row by row. O(ranks log ranks) per row, O(ranks) memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "align/step_table.h"

namespace stepscope {

class Replicas {
 public:
  struct Limits {
    size_t learned_steps = 16;      // of equal norms
    double equal_share = 1e-5;      // of the norm: replicas while learning
    double different_share = 1e-3;  // of the norm: no longer
    size_t lasting_steps = 10;      // one after the other
  };

  struct Divergence {
    int64_t first_step = -1, last_step = -1;
    uint64_t steps = 0;
    std::vector<int> members;    // of the replicas it was seen among, ascending
    std::vector<int> different;  // those whose norm is not that of most; empty = there is no most
    double norm = 0, other = 0;  // in the newest step: of most (else of the smallest), the farthest from it
  };

  explicit Replicas(Limits limits) : limits_(limits) {}

  void add(const StepRow& row, std::optional<double> Cell::* figure);

  // Of the set of replicas that differs longest; first_step -1 = none does.
  Divergence divergence() const;
  bool known() const { return learned_ >= limits_.learned_steps && !sets_.empty(); }

 private:
  struct Set {
    std::vector<int> ranks;
    Divergence now;
  };
  using Norms = std::vector<std::pair<double, int>>;  // ascending
  void learn(const Norms& norms);
  void judge(Set& set, const Norms& norms, int64_t step);

  Limits limits_;
  size_t learned_ = 0;
  std::map<int, uint64_t> class_of_;  // while learning: ranks of one class had the same norm in every step
  std::vector<Set> sets_;
};

}  // namespace stepscope
