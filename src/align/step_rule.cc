#include "align/step_rule.h"

namespace stepscope {

namespace {
uint64_t hash_of(uint64_t optimizer) { return (optimizer + 1) * 0x9e3779b97f4a7c15ull; }
}  // namespace

void StepRule::boundary() {
  const uint64_t closed = signature();
  settled_ = closed == closed_signature_ ? settled_ + 1 : 1;
  closed_signature_ = closed;
  stepped_.clear();
  held_.clear();
  candidate_ = false;
}

StepRule::Verdict StepRule::optimizer_begin(uint64_t optimizer) {
  any_optimizer_ = true;
  inferred_ = false;
  Verdict verdict = Verdict::kNone;
  const auto seen = stepped_.find(optimizer);
  const bool newcomer = seen == stepped_.end();
  if (!explicit_ && candidate_ && seen != stepped_.end() && backwards_ > seen->second) {
    const bool replaced = !held_.empty() && !held_.contains(optimizer);
    if (replaced) {
      held_signature_ = closed_signature_;  // it was held because it is the same
      for (uint64_t old : held_) stepped_.erase(old);
    }
    boundary();
    verdict = replaced ? Verdict::kCloseHeldToo : Verdict::kCloseAtCandidate;
  } else if (!explicit_ && candidate_ && newcomer && held_.empty() && settled_ >= kSettledSteps &&
             backwards_ > newest_begin_ && signature() == closed_signature_) {
    for (const auto& [id, begun] : stepped_) held_.insert(id);
    verdict = Verdict::kHoldCandidate;
  }
  stepped_[optimizer] = newest_begin_ = backwards_;
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
  for (const auto& [id, seen] : stepped_) hash ^= hash_of(id);
  return hash;
}

}  // namespace stepscope
