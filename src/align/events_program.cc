// What the program says itself, and its process.
#include <algorithm>
#include <bit>

#include "align/event_rows.h"

namespace stepscope {

bool step_begins(OpenRank& rank, const Event&, int64_t t, OpenSpan&) {
  rank.start(t);
  if (rank.step_depth++ == 0) {
    rank.evaluating = false;
    if (!rank.stack.covered()) rank.apply(rank.parts.rule().step_begin(), t);
  }
  return true;
}

void step_ends(OpenRank& rank, const Event& e, int64_t t, const OpenSpan*) {
  rank.start(t);
  rank.step_depth = std::max(0, rank.step_depth - 1);
  if (e.flags & kStepBoundary) {
    rank.apply(rank.parts.rule().boundary_here(), t);
  } else if (rank.step_depth == 0) {
    rank.apply(rank.parts.rule().step_end(), t);
  }
  if (rank.step_depth == 0) rank.loss_gap = false;
}

bool user_phase_begins(OpenRank& rank, const Event& e, int64_t, OpenSpan& span) {
  const std::string* phase = rank.names.find(NameKind::kPhase, e.a);
  if (phase) span.category = category_of_phase_name(*phase);
  span.covers = span.category == Category::kValidation || span.category == Category::kCheckpoint ||
                span.category == Category::kLogging;
  return true;
}

bool init_begins(OpenRank& rank, const Event&, int64_t t, OpenSpan&) {
  if (rank.life.init_begin_ns == 0) rank.life.init_begin_ns = t;
  rank.life.leaving_ns = 0;  // the group before was given up for another
  return true;
}

void init_ends(OpenRank& rank, const Event&, int64_t t, const OpenSpan*) { rank.life.init_end_ns = t; }

void tell_rendezvous(OpenRank& rank, const Event& e, int64_t t) {
  if (rank.started) return;
  uint64_t before = 0;
  for (const StartupMeeting& m : rank.life.startup_meetings) before += !m.waited && m.sequence >> 32 == e.a;
  rank.met({0, e.a << 32 | before, false, t, t});
}

bool teardown_begins(OpenRank& rank, const Event&, int64_t t, OpenSpan&) {
  rank.life.teardown_begun = rank.life.group_destroyed = true;
  if (rank.life.leaving_ns == 0) rank.life.leaving_ns = t;
  return true;
}

void tell_value(OpenRank& rank, const Event& e, int64_t) {
  if (const std::string* name = rank.names.find(NameKind::kValue, e.a))
    rank.values.add(*name, std::bit_cast<double>(e.b), rank.parts.facts(), rank.parts.facts_before(),
                    rank.loaders.epoch(), rank.life.steps == 0);
}

constexpr uint64_t kMostTensors = 1u << 24;  // of one optimizer: a record's bytes are not trusted

void tell_scalar(OpenRank& rank, const Event& e, int64_t) {
  const auto what = static_cast<ScalarOf>(e.a);
  rank.note_number(what, std::bit_cast<double>(e.b), static_cast<int64_t>(e.c));
  if (what == ScalarOf::kLearningRate)
    rank.parts.facts().trained_tensors += static_cast<uint32_t>(std::min<uint64_t>(e.d, kMostTensors));
}

void tell_exception(OpenRank& rank, const Event& e, int64_t t) {
  const std::string* exception = rank.names.find(NameKind::kException, e.a);
  const std::string* frames = rank.names.find(NameKind::kTraceback, e.a);
  rank.life.exception = exception ? *exception : "exception";
  rank.life.exception_frames = frames ? *frames : "";
  rank.life.exception_ns = t;
}

void tell_process(OpenRank& rank, const Event& e, int64_t t) {
  if (e.a != static_cast<uint64_t>(ProcessEvent::kExit)) return;
  rank.life.teardown_begun = true;
  if (rank.life.leaving_ns == 0) rank.life.leaving_ns = t;
}

}  // namespace stepscope
