#include "align/program_values.h"

#include <cmath>

#include "align/rank_step.h"

namespace stepscope {

void ProgramValues::add(const std::string& name, double value, StepFacts& step, StepFacts& ended, int32_t counted_epoch,
                        bool first) {
  if (name == "loss") step.loss = value, loss_said_ = true;
  if (name == "tokens") step.tokens += value, tokens_said_ = true;
  if (name == "samples") step.samples += value, samples_said_ = true;
  if (name == "flops") step.flops += value;
  if (name == "epoch") name_epoch(value, step, ended, counted_epoch, first);
}

// Loaders tell when epochs change; the program's word only names them, and may come at their begin, at their end or
// with each step. Said in the first step it is the number of the first epoch (a run that was resumed). Trainers say
// fractions.
void ProgramValues::name_epoch(double value, StepFacts& step, StepFacts& ended, int32_t counted_epoch, bool first) {
  constexpr double kMost = 1e9;
  if (!(value >= 0 && value < kMost)) return;
  epoch_said_ = static_cast<int32_t>(value);
  if (!first || counted_epoch > 0) return;
  first_epoch_ = epoch_said_;
  for (StepFacts* one : {&ended, &step})
    if (one->epoch >= 0 || counted_epoch < 0) one->epoch = epoch_said_;
}

void ProgramValues::begin_work(StepFacts& step, int32_t counted_epoch) const {
  if (step.epoch < 0) step.epoch = counted_epoch < 0 ? epoch_said_ : first_epoch_ + counted_epoch;
}

void ProgramValues::computed(ScalarOf what, double value, StepFacts& step) {
  if (what == ScalarOf::kLoss) {
    step.backward_loss = value;
    step.numerics |= kLossSeen;
    loss_seen_ = true;
    if (!std::isfinite(value)) step.numerics |= kLossNotFinite;
  } else if (what == ScalarOf::kGradNorm) {
    step.grad_norm = value;
    if (!std::isfinite(value)) step.numerics |= kGradNormNotFinite;
  } else if (what == ScalarOf::kLearningRate) {
    step.learning_rate = value;
  }
}

// A logged loss may be that of an evaluation: whether training's is finite, backward's tells where it can be seen.
void ProgramValues::settle(StepFacts& step) const {
  if (!loss_said_ && (step.numerics & kLossScaled) == 0) step.loss = step.backward_loss;
  if (loss_seen_ || !step.loss) return settle_counts(step);
  step.numerics |= kLossSeen;
  if (!std::isfinite(*step.loss)) step.numerics |= kLossNotFinite;
  settle_counts(step);
}

void ProgramValues::settle_counts(StepFacts& step) const {
  if (!samples_said_) step.samples = step.counted_samples;
  if (!tokens_said_) step.tokens = step.counted_tokens;
}

}  // namespace stepscope
