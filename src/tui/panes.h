// Private to the .cc files of this room: the parts of a screen as lines. Each takes the columns and the rows it has and
// returns no more than these rows.
#pragma once

#include <vector>

#include "tui/screen.h"

namespace stepscope::tui {

using Line = TextPage::Line;
using Lines = std::vector<Line>;

struct Room {
  int columns = 0, rows = 0;
};

// A line that names what follows.
Line heading(std::string_view title, std::string_view aside, bool chosen);
// `left`, and `right` at the right edge where there is room for both; else `left` alone, cut.
Line both_ends(const Line& left, const Line& right, int columns);
// At most `rows` lines of `text`; the last one is cut where there are more.
std::vector<std::string> wrapped(std::string_view text, int columns, int rows);
int width_of(const Line& line);
Line cut(const Line& line, int columns);

// Name, state, verdict, cost, next step (head.cc).
Lines head_lines(const ScreenInput& input, const ViewState& state, const Room& room);
// Where the time goes, step times, memory, as lines of one or two rows each.
Lines trend_lines(const ScreenInput& input, const Room& room);
Line memory_trend(const ScreenInput& input, int columns);  // empty where nothing is known

// The table of phases: Median, Worst, Worst Rank, Skew %, Share (text_panes.cc).
Lines phase_lines(const Told& told, const Room& room);
Lines output_lines(const ScreenInput& input, const ViewState& state, const Room& room, bool chosen);
// All of a block of the page.
Lines block_lines(const Told& told, BlockKind kind, int columns);
Lines memory_lines(const ScreenInput& input, int columns);
Lines help_lines(int columns);
Line key_line(const ViewState& state, int columns);

// The ranks in the reader's order (ranks_pane.cc).
std::vector<const RankStat*> ranks_in_order(const Snapshot& snapshot, const ViewState& state);
std::vector<std::string> rank_sorts(const Snapshot& snapshot);
Lines rank_lines(const Told& told, const ViewState& state, const Room& room, bool chosen);

// One line for each finding, the chosen one marked (findings_pane.cc). Without the primary one, which stands above,
// where `others` alone are asked for.
Lines finding_lines(const Told& told, const ViewState& state, const Room& room, bool chosen, bool others);
// All about the chosen one.
Lines detail_lines(const Told& told, const ViewState& state, int columns);

}  // namespace stepscope::tui
