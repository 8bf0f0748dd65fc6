#include "align/thread_usage.h"

namespace stepscope {

void ThreadUsage::told(const Totals& totals) {
  newest_ = totals;
  known_ = true;
}

void ThreadUsage::begin() {
  boundary_ = newest_;
  has_boundary_ = known_;
}

void ThreadUsage::end_step(StepFacts& facts, const Totals& until) {
  if (!known_) return;
  if (has_boundary_) {
    facts.cpu_ns = until.cpu_ns - boundary_.cpu_ns;
    facts.involuntary_switches = static_cast<int32_t>(until.involuntary_switches - boundary_.involuntary_switches);
    facts.voluntary_switches = static_cast<int32_t>(until.voluntary_switches - boundary_.voluntary_switches);
  }
  boundary_ = until;
  has_boundary_ = true;
}

}  // namespace stepscope
