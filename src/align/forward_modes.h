// Which forwards with gradients are evaluations all the same, and which without gradients are a part of the step.
//
// A loop may say eval() and forget no_grad: a module whose training runs in train() mode evaluates while it is in
// eval() mode, until a backward follows such a forward. (Frozen batch norms, attacks on a model in eval() mode and the
// like do train that way; they are learned at their first one.)
//
// A module that runs without gradients in one step after the other and never with them (a teacher, a frozen encoder, a
// target or reference network) works for the step: its forward is forward. One that trains, too, evaluates.
//
// A plain value; bounded: kMaxModules modules are told apart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace stepscope {

class ForwardModes {
 public:
  static constexpr size_t kMaxModules = 256;

  // A forward with gradients begins. True = an evaluation, as far as is known.
  bool evaluates(uint64_t module, bool training_mode);
  // How long a forward was that `evaluates` took for one.
  void evaluated(uint64_t module, int64_t ns);
  // A forward without gradients begins. True = a part of the step: the module ran in the step before as well.
  bool works_for_step(uint64_t module);
  // A step has ended.
  void step_ended() { ++step_; }
  // A batch came: no backward will follow what ran on those before it.
  void batch();
  // A backward begins, of what ran since the last batch. Returns the time that was taken for evaluation wrongly.
  int64_t backward();

 private:
  struct Module {
    bool trains_in_training = false, trains_in_eval = false;  // learned, for good
    bool ran = false, ran_in_training = false;                // its newest forward since the last batch
    int64_t guessed_ns = 0;                                   // of it, taken for evaluation
    bool had_gradients = false;                               // ever
    uint64_t newest_step = 0;                                 // in which it ran without gradients
    bool in_step_before = false;                              // as well
  };
  Module* find(uint64_t module);  // null when too many are known

  std::map<uint64_t, Module> modules_;
  uint64_t step_ = 2;  // 0: no step, and nothing ran in the one before the first
};

}  // namespace stepscope
