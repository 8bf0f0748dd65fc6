#include "align/step_parts.h"

namespace stepscope {

void StepParts::begin(int64_t t) {
  done_.set_begin(t);
  open_.set_begin(t);
  usage_.begin();
}

int64_t StepParts::begin_again(int64_t t) {
  end_stall();
  const int64_t ns = t - open_.begin_ns();
  open_ = StepAccumulator(t);
  begin(t);
  return ns;
}

void StepParts::add_own(Category category, int64_t ns) {
  end_stall();
  open_.add_own(category, ns);
}

void StepParts::end_stall() {
  if (!stall_) return;
  open_.add_stall(*stall_);
  stall_.reset();
}

void StepParts::complete(uint64_t group, uint64_t sequence, uint8_t op, int64_t done_ns) {
  if (!open_.complete(group, sequence, op, done_ns) && !done_.complete(group, sequence, op, done_ns) && held_)
    held_->work.complete(group, sequence, op, done_ns);
}

StepFacts* StepParts::facts_at(int64_t host_ns) {
  if (host_ns >= open_.begin_ns()) return &open_.facts();
  if (host_ns >= done_.begin_ns()) return &done_.facts();
  return held_ && host_ns >= held_->work.begin_ns() ? &held_->work.facts() : nullptr;
}

void StepParts::count_records() { open_.add_records(std::exchange(records_, 0), std::exchange(lost_, 0)); }

void StepParts::close(StepAccumulator& work, int64_t end_ns, uint32_t tags, uint64_t signature) {
  RankStep& step = closed_.emplace_back(work.take(end_ns));
  step.signature = signature;
  step.tags |= tags;
}

void StepParts::candidate(int64_t t) {
  end_stall();
  count_records();
  resolve_undecided();
  done_.join(open_);
  candidate_ns_ = t;
}

void StepParts::hold_candidate() {
  held_ = Part{std::move(done_), candidate_ns_};
  done_ = StepAccumulator(candidate_ns_);
  usage_held_ = usage_.newest();
}

void StepParts::join_held() {
  if (!held_) return;
  held_->work.join(done_);
  done_ = std::move(held_->work);
  held_.reset();
}

void StepParts::close_held() {
  if (!held_) return;
  usage_.end_step(held_->work.facts(), usage_held_);
  close(held_->work, held_->end_ns, 0, rule_.held_signature());
  held_.reset();
}

void StepParts::close_at_candidate(uint32_t tags) {
  join_held();
  usage_.end_step(done_.facts(), usage_.newest());
  close(done_, candidate_ns_, tags, rule_.closed_signature());
}

void StepParts::close_here(int64_t t) {
  end_stall();
  count_records();
  resolve_undecided();
  join_held();
  done_.join(open_);
  candidate_ns_ = t;
  close_at_candidate(rule_.inferred() ? kTagInferred : 0u);
}

// A backward ended and nobody knows yet whether this run has an optimizer.
void StepParts::keep_undecided(int64_t t) {
  if (undecided_.size() >= kMaxUndecided) return;
  end_stall();
  count_records();
  StepAccumulator next(t);
  undecided_.push_back({std::move(open_), t});
  open_ = std::move(next);
}

// An optimizer exists (the parts were of one step) or it does not (each part was a step).
void StepParts::resolve_undecided() {
  if (undecided_.empty()) return;
  const bool of_one_step = rule_.any_optimizer() || rule_.has_explicit();
  for (Part& part : std::exchange(undecided_, {})) {
    done_.join(part.work);
    if (!of_one_step) close(done_, part.end_ns, kTagInferred, rule_.closed_signature());
  }
}

void StepParts::apply(StepRule::Verdict verdict, int64_t t) {
  switch (verdict) {
    case StepRule::Verdict::kNone: return;
    case StepRule::Verdict::kCandidate: return candidate(t);
    case StepRule::Verdict::kCloseAtCandidate: return close_at_candidate();
    case StepRule::Verdict::kHoldCandidate: return hold_candidate();
    case StepRule::Verdict::kCloseHeldToo: return close_held(), close_at_candidate();
    case StepRule::Verdict::kCloseHere: return close_here(t);
    case StepRule::Verdict::kUndecided: return keep_undecided(t);
  }
}

void StepParts::finish() {
  end_stall();
  count_records();
  if (rule_.has_candidate()) close_at_candidate(kTagProvisional);
  resolve_undecided();
}

}  // namespace stepscope
