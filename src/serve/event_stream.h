// Server-sent events of one run for one listener. `state` when the verdict or figures changed, `steps` with the time of
// new steps (its id is the newest step: a listener that comes back with Last-Event-ID gets what it missed, or a gap it
// can see from `from`), `end` when the run is over, `beat` when nothing else was said for kBeatNs. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "serve/run_state.h"

namespace stepscope {

inline constexpr uint64_t kBeatNs = 5'000'000'000;

struct EventCursor {
  int64_t after_step = -1;  // the newest step that the listener has
  uint64_t version = 0;     // of what it was told last
  uint64_t told_ns = 0;
  bool ended = false;
};

// "" = nothing to say yet. Without a snapshot (a run that has just begun) there are beats only.
std::string next_events(const RunState& run, EventCursor& cursor, uint64_t now_ns);

// "12" → 12; what is no step counts as none.
int64_t step_of_event_id(const std::string& text);

}  // namespace stepscope
