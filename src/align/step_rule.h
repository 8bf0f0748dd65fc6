// Where steps end. The rule (docs/design.md, Steps): a step closes, in retrospect, at the last optimizer end before an
// optimizer that already stepped in this step begins again with at least one backward in between. trace_step makes it
// exact: an exit ends a step when an optimizer stepped since the last end. Where no optimizer is ever seen, backward
// ends are boundaries (and, with trace_step, every exit).
//
// One thing the rule alone would get wrong: an optimizer that replaces another one (a new one per epoch or stage) steps
// first where a second optimizer of the same step would. So where steps have settled and an optimizer comes that is
// none of theirs, that boundary is held: it was one if the newcomer begins again before those it came after do. Whether
// it was there before says nothing: an optimizer's number is its address, which the next but one may have again.
//
// Pure state machine; says what an event means for the boundary, owns no time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

namespace stepscope {

class StepRule {
 public:
  enum class Verdict {
    kNone,
    kCandidate,         // the step may end here: remember this moment, the newest one counts
    kCloseAtCandidate,  // the step ended at the newest candidate; what followed it belongs to the next step
    kHoldCandidate,     // a step may have ended at the newest candidate: keep it apart until the next close
    kCloseHeldToo,      // a step ended at the held candidate and another at the newest one
    kCloseHere,         // the step ends at this event
    kUndecided,         // a boundary if it turns out that the run has no optimizer
  };

  Verdict optimizer_begin(uint64_t optimizer);
  Verdict optimizer_end(uint64_t optimizer);
  Verdict backward_end(bool accumulates);
  Verdict step_begin();
  Verdict step_end();
  Verdict boundary_here();  // the program says so, whatever optimizers did

  // Optimizers that stepped in the step closed last, as one hash (order does not count): compare like with like.
  uint64_t closed_signature() const { return closed_signature_; }
  // The same of the held one, after kCloseHeldToo.
  uint64_t held_signature() const { return held_signature_; }
  // Optimizers that stepped since.
  uint64_t signature() const;
  bool any_optimizer() const { return any_optimizer_; }
  // True when boundaries are backward ends because no optimizer exists.
  bool inferred() const { return inferred_; }
  bool has_explicit() const { return explicit_; }
  bool has_candidate() const { return candidate_; }
  // Whether work that would make a step was seen since the last boundary (for closing the open last step).
  bool stepped() const { return !stepped_.empty(); }

  // Backward ends without any optimizer after which the rule falls back: more than any usual accumulation count.
  static constexpr int kFallbackBackwards = 64;
  // Steps in a row by the same optimizers after which they have settled.
  static constexpr int kSettledSteps = 2;

 private:
  void boundary();

  std::map<uint64_t, uint64_t> stepped_;  // optimizer -> backwards seen at its newest begin in this step
  std::set<uint64_t> held_;               // optimizers of the held part of this step
  uint64_t backwards_ = 0, accumulating_ = 0, closed_signature_ = 0, held_signature_ = 0;
  uint64_t newest_begin_ = 0;  // backwards seen at the newest begin of any optimizer
  int settled_ = 0;            // steps in a row with this signature
  bool any_optimizer_ = false, explicit_ = false, inferred_ = false, candidate_ = false;
};

}  // namespace stepscope
