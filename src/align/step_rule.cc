#include "align/step_rule.h"

namespace stepscope {

void StepRule::boundary() {
  closed_signature_ = signature();
  stepped_.clear();
  candidate_ = false;
}

StepRule::Verdict StepRule::optimizer_begin(uint64_t optimizer) {
  any_optimizer_ = true;
  inferred_ = false;
  Verdict verdict = Verdict::kNone;
  const auto seen = stepped_.find(optimizer);
  if (!explicit_ && candidate_ && seen != stepped_.end() && backwards_ > seen->second) {
    boundary();
    verdict = Verdict::kCloseAtCandidate;
  }
  stepped_[optimizer] = backwards_;
  return verdict;
}

StepRule::Verdict StepRule::optimizer_end(uint64_t) {
  if (explicit_) return Verdict::kNone;
  candidate_ = true;
  return Verdict::kCandidate;
}

StepRule::Verdict StepRule::backward_end(bool accumulates) {
  // Gradients by autograd.grad or torch.func.grad lead to an optimizer step as well; only where no optimizer exists do
  // they say nothing about steps (a gradient penalty lies inside one).
  ++backwards_;
  if (any_optimizer_ || explicit_ || !accumulates) return Verdict::kNone;
  if (++accumulating_ >= kFallbackBackwards) inferred_ = true;
  return inferred_ ? Verdict::kCloseHere : Verdict::kUndecided;
}

StepRule::Verdict StepRule::step_begin() {
  const bool first = !explicit_;
  explicit_ = true;
  inferred_ = false;
  // Steps that ran before the program began to use trace_step keep their own boundary.
  if (first && candidate_) {
    boundary();
    return Verdict::kCloseAtCandidate;
  }
  return Verdict::kNone;
}

StepRule::Verdict StepRule::step_end() {
  explicit_ = true;
  if (any_optimizer_ && stepped_.empty()) return Verdict::kNone;
  boundary();
  return Verdict::kCloseHere;
}

StepRule::Verdict StepRule::boundary_here() {
  explicit_ = true;
  inferred_ = false;
  boundary();
  return Verdict::kCloseHere;
}

uint64_t StepRule::signature() const {
  uint64_t hash = 0;
  for (const auto& [id, seen] : stepped_) hash ^= (id + 1) * 0x9e3779b97f4a7c15ull;
  return hash;
}

}  // namespace stepscope
