// All that is open in one rank while its records are read: what its training thread is in, the parts of its step, what
// is known of its program so far. The handlers of event_rows.h fill it, one kind of event each; StepBuilder is its
// front.
//
// Private to align. Plain, single-threaded; same records, same state.
#pragma once

#include <cstdint>
#include <map>

#include "align/device_side.h"
#include "align/event.h"
#include "align/farthest_count.h"
#include "align/forward_modes.h"
#include "align/loader_roles.h"
#include "align/memory_readings.h"
#include "align/name_book.h"
#include "align/program_values.h"
#include "align/rank_step.h"
#include "align/span_stack.h"
#include "align/step_parts.h"
#include "align/training_thread.h"

namespace stepscope {

struct OpenRank {
  TrainingThread training;
  RankLife life;
  NameBook names;
  SpanStack stack;
  StepParts parts;
  DeviceSide device;
  ForwardModes modes;
  LoaderRoles loaders;
  ProgramValues values;
  MemoryReadings memory;
  FarthestCount schedulers, optimizers;
  std::map<uint64_t, size_t> communicators;

  bool started = false, finished = false;
  bool worked = false;  // the model has done something since `started`
  int64_t last_ns = 0;
  bool loss_gap = false;    // between the end of a root forward and its backward
  bool evaluating = false;  // between the parts of an evaluation
  int step_depth = 0;
  bool scaler_stepped = false;
  bool sees_issues = false;  // somebody reports collectives: torch before 2.14 does not, and gloo never without it
  bool group_hooks = false;  // process-group hooks report collectives: NCCL's own reports are only timed
  uint64_t backward_tails = 0;
  double last_batch = 0;  // samples counted for the newest fetch, until its shape is told

  // What the training thread is in as of the newest event; in a stall what it interrupts.
  Category phase();
  bool stalled();
  // What time outside of all spans is.
  Category gap() const;
  // Everything up to `t` is charged to what the thread was in since the last charge.
  void charge(int64_t t);
  // All ranks meet here, and none of this one's steps has begun.
  void met(const StartupMeeting& meeting);
  // The first work of a step begins, where none did yet.
  void start(int64_t t);
  // A batch is fetched at `t`: where one was before the model did anything it was dropped (a resume that skips what was
  // trained on), and the first step begins with this one.
  void drop_unused_batch(int64_t t);
  // What the step rule says of an event at `t`; steps that end get their number, tags and figures.
  void apply(StepRule::Verdict verdict, int64_t t);
  void finish(int64_t end_ns);

  // Training computed a number at `host_ns` (0 = now): told of the step that went on then, where it is still here, else
  // of the open one.
  void note_number(ScalarOf what, double value, int64_t host_ns);

  // What work with gradients, or without, says of the batch and the gaps around it.
  void training_work();
  void evaluation_work();
  // Samples and tokens of the newest batch; of an evaluation they are taken back (evaluation_work).
  void count_batch(double samples, double tokens);

  void push(const Event& event);
  // `main`: of the thread that is followed.
  void handle(const Event& event, bool main);
  // Records are missing: what is open is not known any more.
  void forget_spans();

 private:
  bool tail_stalls();
  Stall stall_from(int64_t begin_ns, Category phase);
  void close_steps();
  void change_thread();
  void say_threads();
};

}  // namespace stepscope
