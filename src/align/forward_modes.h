// Which forwards with gradients are evaluations all the same. A loop may say eval() and forget no_grad: a module whose
// training runs in train() mode evaluates while it is in eval() mode, until a backward follows such a forward. (Frozen
// batch norms, attacks on a model in eval() mode and the like do train that way; they are learned at their first one.)
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
  // A batch came: no backward will follow what ran on those before it.
  void batch();
  // A backward begins, of what ran since the last batch. Returns the time that was taken for evaluation wrongly.
  int64_t backward();

 private:
  struct Module {
    bool trains_in_training = false, trains_in_eval = false;  // learned, for good
    bool ran = false, ran_in_training = false;                // its newest forward since the last batch
    int64_t guessed_ns = 0;                                   // of it, taken for evaluation
  };
  std::map<uint64_t, Module> modules_;
};

}  // namespace stepscope
