// What each kind of event means for the open step: one row per kind (event_rows.cc), with small handlers where a row's
// plain columns do not say it all (events_*.cc). A kind without a row tells a step nothing.
//
// Private to align. Constant tables and functions without state of their own.
#pragma once

#include <cstdint>

#include "align/open_rank.h"
#include "blackbox/event_kind.h"

namespace stepscope {

struct EventRow {
  // Whose word counts.
  enum class Of : uint8_t {
    kThread,   // the thread that is followed
    kStep,     // any thread that works for the step, as autograd's do
    kProcess,  // any thread
    kAside,    // any thread, begin and end alike; time does not move
  };
  // What a span does with what happens in it (span_stack.h).
  enum class Nature : uint8_t { kPlain, kCovers, kInterrupts };

  Kind kind{};
  Of of = Of::kThread;
  bool spans = false;
  Category category = Category::kUnattributed;
  Nature nature = Nature::kPlain;
  // `span` is as the row says; a handler may know better, or open none: false.
  bool (*begins)(OpenRank&, const Event&, int64_t t, OpenSpan& span) = nullptr;
  // `span`: the one that ended, nullptr where none was open.
  void (*ends)(OpenRank&, const Event&, int64_t t, const OpenSpan* span) = nullptr;
  void (*tell)(OpenRank&, const Event&, int64_t t) = nullptr;  // a mark

  void open(OpenRank& rank, const Event& event, int64_t t) const;
  void close(OpenRank& rank, const Event& event, int64_t t) const;
};

// O(1).
const EventRow& event_row(Kind kind);

// Handlers, by what they are about. `t`: the event's time, never before the one before it.

// events_program.cc: what the program says itself, and its process.
bool step_begins(OpenRank&, const Event&, int64_t t, OpenSpan&);
void step_ends(OpenRank&, const Event&, int64_t t, const OpenSpan*);
bool user_phase_begins(OpenRank&, const Event&, int64_t t, OpenSpan&);
bool init_begins(OpenRank&, const Event&, int64_t t, OpenSpan&);
void init_ends(OpenRank&, const Event&, int64_t t, const OpenSpan*);
bool teardown_begins(OpenRank&, const Event&, int64_t t, OpenSpan&);
void tell_value(OpenRank&, const Event&, int64_t t);
void tell_scalar(OpenRank&, const Event&, int64_t t);
void tell_exception(OpenRank&, const Event&, int64_t t);
void tell_rendezvous(OpenRank& rank, const Event& e, int64_t t);
void tell_process(OpenRank&, const Event&, int64_t t);

// events_model.cc: the model's work.
bool forward_begins(OpenRank&, const Event&, int64_t t, OpenSpan&);
void forward_ends(OpenRank&, const Event&, int64_t t, const OpenSpan*);
bool backward_begins(OpenRank&, const Event&, int64_t t, OpenSpan&);
void backward_ends(OpenRank&, const Event&, int64_t t, const OpenSpan*);
void tell_backward_own(OpenRank&, const Event&, int64_t t);
bool optimizer_begins(OpenRank&, const Event&, int64_t t, OpenSpan&);
void optimizer_ends(OpenRank&, const Event&, int64_t t, const OpenSpan*);
void tell_scheduler(OpenRank&, const Event&, int64_t t);

// events_input.cc: batches.
bool fetch_begins(OpenRank&, const Event&, int64_t t, OpenSpan&);
void fetch_ends(OpenRank&, const Event&, int64_t t, const OpenSpan*);
bool iterator_begins(OpenRank&, const Event&, int64_t t, OpenSpan&);
bool iterator_end_begins(OpenRank&, const Event&, int64_t t, OpenSpan&);
bool copy_begins(OpenRank&, const Event&, int64_t t, OpenSpan&);
void tell_shape(OpenRank&, const Event&, int64_t t);

// events_pause.cc: what interrupts the thread, and what the thread uses.
void gc_ends(OpenRank&, const Event&, int64_t t, const OpenSpan*);
void sync_ends(OpenRank&, const Event&, int64_t t, const OpenSpan*);
void tell_usage(OpenRank&, const Event&, int64_t t);

// events_collective.cc: what the ranks do together.
bool wait_begins(OpenRank&, const Event&, int64_t t, OpenSpan&);
void wait_ends(OpenRank&, const Event&, int64_t t, const OpenSpan*);
void tell_collective(OpenRank&, const Event&, int64_t t);
void tell_collective_done(OpenRank&, const Event&, int64_t t);
void tell_nccl_op(OpenRank&, const Event&, int64_t t);
void tell_nccl_time(OpenRank&, const Event&, int64_t t);
void tell_communicator(OpenRank&, const Event&, int64_t t);

// events_device.cc: what the device and its allocator say.
void tell_gpu_mark(OpenRank&, const Event&, int64_t t);
void tell_memory(OpenRank&, const Event&, int64_t t);
void tell_out_of_memory(OpenRank&, const Event&, int64_t t);
void tell_out_of_memory_detail(OpenRank&, const Event&, int64_t t);

}  // namespace stepscope
