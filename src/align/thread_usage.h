// What the training thread uses in each step, from the totals since its begin that it tells at step marks
// (Kind::kUsage). A plain value; no failure: without totals nothing is said.
#pragma once

#include <cstdint>

#include "align/step_fields.h"

namespace stepscope {

class ThreadUsage {
 public:
  struct Totals {
    int64_t cpu_ns = 0, involuntary_switches = 0, voluntary_switches = 0;
  };

  void told(const Totals& totals);
  const Totals& newest() const { return newest_; }
  // The first step begins.
  void begin();
  // A step ended when `until` was the newest that was told.
  void end_step(StepFacts& facts, const Totals& until);

 private:
  Totals newest_, boundary_;
  bool known_ = false, has_boundary_ = false;
};

}  // namespace stepscope
