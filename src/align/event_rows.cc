#include "align/event_rows.h"

#include <array>
#include <utility>

namespace stepscope {

namespace {

using Of = EventRow::Of;

constexpr EventRow span(Kind kind, Category category, EventRow::Nature nature, decltype(EventRow::begins) begins,
                        decltype(EventRow::ends) ends) {
  return {kind, Of::kThread, true, category, nature, begins, ends, nullptr};
}

constexpr EventRow mark(Kind kind, Of of, decltype(EventRow::tell) tell) {
  return {.kind = kind, .of = of, .tell = tell};
}

constexpr auto kPlain = EventRow::Nature::kPlain, kCovers = EventRow::Nature::kCovers,
               kInterrupts = EventRow::Nature::kInterrupts;

constexpr EventRow kRows[] = {
    // Spans: category of the time in it, what it does with what happens in it.
    span(Kind::kStep, Category::kUnattributed, kPlain, step_begins, step_ends),
    span(Kind::kUserPhase, Category::kUserCode, kPlain, user_phase_begins, nullptr),
    span(Kind::kOptimizer, Category::kOptimizer, kPlain, optimizer_begins, optimizer_ends),
    span(Kind::kScalerStep, Category::kOptimizer, kPlain, optimizer_begins, optimizer_ends),
    span(Kind::kBackward, Category::kBackward, kPlain, backward_begins, backward_ends),
    span(Kind::kForward, Category::kForward, kPlain, forward_begins, forward_ends),
    span(Kind::kFetch, Category::kInputWait, kPlain, fetch_begins, fetch_ends),
    span(Kind::kLoaderCreate, Category::kEpochStart, kPlain, iterator_begins, nullptr),
    span(Kind::kLoaderEnd, Category::kEpochStart, kPlain, iterator_end_begins, nullptr),
    span(Kind::kH2d, Category::kH2d, kPlain, copy_begins, nullptr),
    span(Kind::kWait, Category::kUnattributed, kPlain, wait_begins, wait_ends),
    span(Kind::kGc, Category::kHostPause, kInterrupts, nullptr, gc_ends),
    span(Kind::kSync, Category::kHostPause, kInterrupts, nullptr, sync_ends),
    span(Kind::kSave, Category::kCheckpoint, kCovers, nullptr, nullptr),
    span(Kind::kCompile, Category::kCompile, kCovers, nullptr, nullptr),
    span(Kind::kInitGroup, Category::kStartup, kCovers, init_begins, init_ends),
    span(Kind::kTeardown, Category::kTeardown, kCovers, teardown_begins, nullptr),

    // Marks: whose word counts.
    mark(Kind::kBackwardOwn, Of::kStep, tell_backward_own),
    mark(Kind::kUsage, Of::kThread, tell_usage),
    mark(Kind::kShape, Of::kThread, tell_shape),
    mark(Kind::kValue, Of::kProcess, tell_value),
    mark(Kind::kScalar, Of::kProcess, tell_scalar),
    mark(Kind::kScheduler, Of::kThread, tell_scheduler),
    mark(Kind::kException, Of::kProcess, tell_exception),
    mark(Kind::kProcess, Of::kProcess, tell_process),
    mark(Kind::kRendezvous, Of::kProcess, tell_rendezvous),
    mark(Kind::kCollective, Of::kProcess, tell_collective),
    mark(Kind::kCollectiveDone, Of::kProcess, tell_collective_done),
    mark(Kind::kNcclOp, Of::kProcess, tell_nccl_op),
    mark(Kind::kNcclTime, Of::kProcess, tell_nccl_time),
    mark(Kind::kNcclComm, Of::kAside, tell_communicator),
    mark(Kind::kGpuMark, Of::kProcess, tell_gpu_mark),
    mark(Kind::kMemory, Of::kProcess, tell_memory),
    mark(Kind::kMemoryCounters, Of::kProcess, tell_memory),
    mark(Kind::kMemoryPeak, Of::kProcess, tell_memory),
    mark(Kind::kOutOfMemory, Of::kProcess, tell_out_of_memory),
    mark(Kind::kOutOfMemoryDetail, Of::kProcess, tell_out_of_memory_detail),
};

constexpr bool rows_are_sound() {
  bool seen[256] = {};
  for (const EventRow& row : kRows) {
    if (std::exchange(seen[static_cast<size_t>(row.kind)], true)) return false;
  }
  return true;
}
static_assert(rows_are_sound(), "a kind of event has two rows");

constexpr std::array<EventRow, 256> kByKind = [] {
  std::array<EventRow, 256> all{};
  for (const EventRow& row : kRows) all[static_cast<size_t>(row.kind)] = row;
  return all;
}();

}  // namespace

const EventRow& event_row(Kind kind) { return kByKind[static_cast<size_t>(kind)]; }

void EventRow::open(OpenRank& rank, const Event& event, int64_t t) const {
  OpenSpan opened;
  opened.kind = kind;
  opened.id = event.a;
  opened.sequence = event.b;
  opened.category = category;
  opened.covers = nature == Nature::kCovers;
  opened.interrupts = nature == Nature::kInterrupts;
  opened.begin_ns = static_cast<int64_t>(event.time_ns);
  if (begins && !begins(rank, event, t, opened)) return;
  rank.stack.push(opened);
}

void EventRow::close(OpenRank& rank, const Event& event, int64_t t) const {
  OpenSpan closed;
  const bool was_open = rank.stack.pop(kind, event.a, &closed);
  if (ends) ends(rank, event, t, was_open ? &closed : nullptr);
}

}  // namespace stepscope
