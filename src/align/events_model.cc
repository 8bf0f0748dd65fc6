// The model's work: forward, backward, optimizer. Optimizers and backwards are also where steps end (step_rule.h).
#include "align/event_rows.h"

namespace stepscope {

bool forward_begins(OpenRank& rank, const Event& e, int64_t t, OpenSpan& span) {
  if (rank.stack.inside(Kind::kBackward)) return false;  // activation checkpointing computes it again: part of backward
  const bool nested = rank.stack.inside(Kind::kForward);
  if (!nested) ++rank.parts.facts().forwards;
  const bool grad = e.flags & kForwardGrad;
  const bool trainer = rank.loaders.newest() ? rank.loaders.newest_feeds_training() : (e.flags & kForwardTraining) != 0;
  span.gradients = grad;
  if (grad) rank.start(t);
  const bool evaluates = grad && !nested && rank.modes.evaluates(e.a, e.flags & kForwardTraining);
  if (grad && !evaluates) {
    if (!nested) rank.parts.facts().input_elements += static_cast<double>(e.b);
    if (!rank.stack.covered()) rank.training_work();
    return true;
  }
  const bool of_validation = rank.loaders.newest() && rank.loaders.evaluates(rank.loaders.newest());
  const bool works_for_step = !grad && !nested && !of_validation && rank.modes.works_for_step(e.a);
  if (!evaluates && (!rank.started || trainer || nested || works_for_step)) return true;
  rank.loss_gap = false;
  if (!rank.stack.covered()) rank.evaluation_work();
  span.category = Category::kValidation;
  span.covers = true;
  return true;
}

void forward_ends(OpenRank& rank, const Event&, int64_t t, const OpenSpan* span) {
  if (!span) return;
  if (span->category == Category::kForward && span->gradients) rank.loss_gap = true;
  if (span->category == Category::kValidation) rank.modes.evaluated(span->id, t - span->begin_ns);
}

bool backward_begins(OpenRank& rank, const Event&, int64_t t, OpenSpan&) {
  rank.start(t);
  rank.loss_gap = false;
  rank.parts.open().move_own(Category::kValidation, Category::kForward, rank.modes.backward());
  if (!rank.stack.covered()) rank.training_work();
  return true;
}

void backward_ends(OpenRank& rank, const Event& e, int64_t t, const OpenSpan* span) {
  rank.parts.end_stall();  // the next stall is at another sync point
  if (!span) return;
  if (span->collectives)
    rank.device.lane().backward_meets(t, span->last_group,
                                      rank.group_hooks ? span->last_sequence : rank.backward_tails);
  ++rank.backward_tails;
  rank.loaders.work_ended();
  rank.parts.facts().backwards += e.a == 1;
  rank.apply(rank.parts.rule().backward_end(e.a == 1 && !rank.stack.inside(Kind::kCompile)), t);
}

// Only where something can be waited for; otherwise the rest of backward is its own work (OpenRank::tail_stalls).
void tell_backward_own(OpenRank& rank, const Event&, int64_t) {
  if (OpenSpan* backward = rank.stack.innermost(Kind::kBackward)) backward->own_ended = true;
}

bool optimizer_begins(OpenRank& rank, const Event& e, int64_t t, OpenSpan& span) {
  rank.start(t);
  rank.loss_gap = false;
  rank.stack.drop_unfinished(span.kind, e.a);  // an optimizer's step runs no step of its own
  if (!rank.stack.covered()) rank.training_work();
  rank.apply(rank.parts.rule().optimizer_begin(e.a), t);
  rank.scaler_stepped = span.kind == Kind::kOptimizer;
  return true;
}

void optimizer_ends(OpenRank& rank, const Event& e, int64_t t, const OpenSpan*) {
  rank.start(t);
  const bool scaler = kind_of(e.kind) == Kind::kScalerStep, skipped = scaler && !rank.scaler_stepped;
  if (skipped) rank.parts.facts().tags |= kTagSkipped;
  if (scaler && (e.flags & kScalerOff) == 0) rank.parts.facts().numerics |= kLossScaled;
  if ((skipped || !scaler) && rank.optimizers.add(e.a)) ++rank.parts.facts().optimizer_steps;
  rank.loaders.work_ended();
  // The inner optimizer of a GradScaler step ends nothing of its own.
  rank.apply(rank.parts.rule().optimizer_end(e.a), t);
}

// A scheduler that is made advances once, and one that is set says nothing of its pace. Before any optimizer has
// stepped it is ahead only where training has begun: a run that is resumed winds it forward first.
void tell_scheduler(OpenRank& rank, const Event& e, int64_t) {
  if (e.b == 1 || (e.flags & kSchedulerSet) != 0) return;
  StepFacts& facts = rank.parts.facts();
  if (rank.schedulers.add(e.a)) ++facts.scheduler_advances;
  if (rank.backward_tails > 0 && rank.optimizers.farthest() == 0) facts.numerics |= kSchedulerFirst;
}

}  // namespace stepscope
