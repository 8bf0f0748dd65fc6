// What the program says of its steps by log(), and what is counted where it says nothing: samples and tokens from the
// shapes of batches, epochs from the starts of the training loader, the loss from what backward is called on.
//
// A plain single-threaded object; no failure.
#pragma once

#include <cstdint>
#include <string>

#include "align/step_fields.h"
#include "blackbox/event_kind.h"

namespace stepscope {

class ProgramValues {
 public:
  // A value said now; `step` is what goes on, `ended` the step whose end is not certain yet, which an epoch may still
  // name. `counted_epoch`: starts of the training loader so far, -1 = none; `first`: no step is complete.
  void add(const std::string& name, double value, StepFacts& step, StepFacts& ended, int32_t counted_epoch, bool first);
  // Training work begins: `step` gets its epoch if it has none.
  void begin_work(StepFacts& step, int32_t counted_epoch) const;
  // Training computed a number; `step` is the one it belongs to.
  void computed(ScalarOf what, double value, StepFacts& step);
  // The step is complete: what was counted, and what backward was called on, counts where nothing was said in the whole
  // run.
  void settle(StepFacts& step) const;

 private:
  void settle_counts(StepFacts& step) const;
  void name_epoch(double value, StepFacts& step, StepFacts& ended, int32_t counted_epoch, bool first);

  bool samples_said_ = false, tokens_said_ = false, loss_said_ = false;
  bool loss_seen_ = false;   // of a backward
  int32_t epoch_said_ = -1;  // holds up to the next word where no loader tells the changes
  int32_t first_epoch_ = 0;  // number of the first one
};

}  // namespace stepscope
