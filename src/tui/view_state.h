// What the reader of a terminal view has chosen, and how keys change it. Pure.
#pragma once

#include <string>
#include <vector>

#include "tui/keys.h"

namespace stepscope::tui {

enum class Pane : unsigned char { kOverview, kRanks, kSteps, kFindings, kMemory, kSystem, kOutput };
inline constexpr int kPaneCount = 7;
std::string_view title_of(Pane pane);

struct ViewState {
  Pane pane = Pane::kOverview;
  Pane focus = Pane::kRanks;  // of the overview: the list that the arrows move in; ranks, findings or output
  bool detail = false, help = false, paused = false;
  std::string sort;  // title of a column of ranks; "" = who delays others most, culprits first
  bool ascending = false;
  int rank_row = -1;  // chosen row of the table of ranks, -1 = none yet
  int finding = 0;    // chosen finding
  int scroll = 0;     // of text that is longer than its room; of output: lines back from the newest
};

// What there is to move in; the screen tells it (screen.h).
struct ViewLimits {
  int ranks = 0, findings = 0;
  int scroll = 0;                  // the farthest
  int page_rows = 1;               // of a Page key
  std::vector<std::string> sorts;  // titles of the columns of ranks
};

enum class Action : unsigned char { kNone, kDraw, kQuit };

Action apply_key(ViewState& state, const Key& key, const ViewLimits& limits);

}  // namespace stepscope::tui
