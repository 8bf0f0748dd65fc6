// Work without a name between the steps: what stands out in a few of them, on whichever rank it lies. A plain value,
// made of the rows in scope: a median per rank; O(1) per cell asked.
#pragma once

#include <map>

#include "diagnose/rule_input.h"

namespace stepscope {

class UnnamedWork {
 public:
  explicit UnnamedWork(const RuleInput& in);

  // What the cell has beyond its rank's usual, where it stands out; else 0.
  double beyond_ms(const Cell& cell) const;
  // Takes that away.
  void cut(const Cell& cell, LedgerMs& from) const;
  // Whether it comes with the work of this category (between_around_share), and that hardly ever without it.
  bool comes_with(const RuleInput& in, Category category) const;

 private:
  double least_ms_, factor_;
  std::map<int, double> usual_ms_;
};

}  // namespace stepscope
