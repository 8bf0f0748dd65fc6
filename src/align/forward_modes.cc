#include "align/forward_modes.h"

namespace stepscope {

bool ForwardModes::evaluates(uint64_t module, bool training_mode) {
  Module* m = find(module);
  if (!m) return false;
  m->ran = m->had_gradients = true;
  m->ran_in_training = training_mode;
  m->guessed_ns = 0;
  return !training_mode && m->trains_in_training && !m->trains_in_eval;
}

bool ForwardModes::works_for_step(uint64_t module) {
  Module* m = find(module);
  if (!m || m->had_gradients) return false;
  if (m->newest_step != step_) m->in_step_before = m->newest_step + 1 == step_;
  m->newest_step = step_;
  return m->in_step_before;
}

ForwardModes::Module* ForwardModes::find(uint64_t module) {
  if (modules_.size() >= kMaxModules && !modules_.contains(module)) return nullptr;
  return &modules_[module];
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
