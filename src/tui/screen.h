// The terminal view: one screen as a pure function of what is known, what the reader chose and the room there is.
// Verdict and cost first, then where the time goes, then ranks, findings, memory, system and output as far as there is
// room. Cost: some milliseconds for 1,000 ranks (screen_bench.cc).
#pragma once

#include <memory>
#include <string>

#include "diagnose/snapshot.h"
#include "report/page.h"
#include "tui/grid.h"
#include "tui/memory_track.h"
#include "tui/output_tail.h"
#include "tui/view_state.h"

namespace stepscope::tui {

// A snapshot and what is worked out of it once, not with every frame.
struct Told {
  explicit Told(Snapshot from);

  Snapshot snapshot;
  Page page;
};

struct ScreenInput {
  std::string run_name;              // while nothing is told
  std::shared_ptr<const Told> told;  // null: nothing heard yet
  const OutputTail* output = nullptr;
  const MemoryTrack* memory = nullptr;
  std::string notice;   // newest message, "" = none
  double silent_s = 0;  // since the last answer of a live run
  bool live = false;
};

struct Size {
  int columns = 80, rows = 24;
};

struct Screen {
  Grid grid;
  ViewLimits limits;
};

Screen draw_screen(const ScreenInput& input, const ViewState& state, const Size& size);

}  // namespace stepscope::tui
