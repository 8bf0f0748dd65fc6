#include "align/forward_modes.h"

namespace stepscope {

bool ForwardModes::evaluates(uint64_t module, bool training_mode) {
  if (modules_.size() >= kMaxModules && !modules_.contains(module)) return false;
  Module& m = modules_[module];
  m.ran = true;
  m.ran_in_training = training_mode;
  m.guessed_ns = 0;
  return !training_mode && m.trains_in_training && !m.trains_in_eval;
}

void ForwardModes::evaluated(uint64_t module, int64_t ns) {
  const auto found = modules_.find(module);
  if (found != modules_.end() && found->second.ran) found->second.guessed_ns = ns;
}

void ForwardModes::batch() {
  for (auto& [id, m] : modules_) m.ran = false;
}

int64_t ForwardModes::backward() {
  int64_t wrong_ns = 0;
  for (auto& [id, m] : modules_) {
    if (!m.ran) continue;
    (m.ran_in_training ? m.trains_in_training : m.trains_in_eval) = true;
    wrong_ns += m.guessed_ns;
    m.ran = false;
  }
  return wrong_ns;
}

}  // namespace stepscope
