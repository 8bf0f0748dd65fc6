// Which category the training thread is in right now, from the spans that are open on it.
//
// A plain single-threaded object. Rules, outermost first:
//   compile, save, validation-like phases and teardown cover all that happens inside them;
//   garbage collection and device syncs win over what they interrupt; a wait is a stall of the phase around it;
//   otherwise the innermost span names the category (an optimizer whose closure runs backward is backward meanwhile);
//   between the end of a root forward and the begin of backward lies the loss: forward;
//   between the parts of an evaluation lies evaluation; every other gap is unattributed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "align/category.h"
#include "align/rank_step.h"
#include "blackbox/event_kind.h"

namespace stepscope {

struct OpenSpan {
  Kind kind;
  uint64_t id = 0, sequence = 0;
  StallSyncPoint sync_point{};  // wait only: which operation
  Category category = Category::kUnattributed;
  bool covers = false;                         // everything inside belongs to this span
  bool interrupts = false;                     // wins over what it interrupts
  bool gradients = false;                      // forward only: it leads to a loss
  bool own_ended = false;                      // backward only: own compute is over
  uint32_t collectives = 0;                    // backward only: collectives issued inside
  uint64_t last_group = 0, last_sequence = 0;  // backward: of its newest collective; wait on the device: what it is for
  int64_t begin_ns = 0;
};

// What the current instant is: own time of a category, or a stall inside a phase.
struct Now {
  Category category = Category::kUnattributed;
  bool stall = false;
  Category phase = Category::kUnattributed;  // the phase a stall interrupts
};

class SpanStack {
 public:
  static constexpr size_t kMaxDepth = 64;

  void push(OpenSpan span);
  // Closes the innermost open span of this kind (and id, where the kind has ids); spans opened inside it that never
  // ended are dropped. Returns false when none is open; `closed` receives the span.
  bool pop(Kind kind, uint64_t id, OpenSpan* closed);
  // A part of a step (forward, backward, optimizer) that an exception left never tells its end. Both drop it with all
  // inside: one where the same part (kind and id) begins again, one where the loop makes a loader's iterator, as no
  // part does.
  void drop_unfinished(Kind kind, uint64_t id) { pop(kind, id, nullptr); }
  void drop_unfinished_parts();

  OpenSpan* innermost(Kind kind);
  bool inside(Kind kind) const;
  // Of the parts of a step: its own bracket, fetch, forward, backward, optimizer.
  bool inside_step() const;
  // True inside a span that covers its content, or in an interruption.
  bool covered() const;
  bool empty() const { return open_.empty(); }
  void clear() { open_.clear(); }

  // `gap` is the category of time outside of all spans; `tail_stalls`: a backward whose own part is over is a stall.
  Now now(Category gap, bool tail_stalls) const;

 private:
  std::vector<OpenSpan> open_;
};

// Category of a phase that the user named with trace_phase: well-known names map to ours, others are user_code.
Category category_of_phase_name(const std::string& name);

}  // namespace stepscope
