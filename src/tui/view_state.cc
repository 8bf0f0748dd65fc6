#include "tui/view_state.h"

#include <algorithm>
#include <array>

namespace stepscope::tui {
namespace {

constexpr std::array<std::string_view, kPaneCount> kTitles = {"overview", "ranks",  "steps", "findings",
                                                              "memory",   "system", "output"};

// The list or text that the arrows move in.
Pane moved_in(const ViewState& state) { return state.pane == Pane::kOverview ? state.focus : state.pane; }

void open(ViewState& state, Pane pane) {
  state.pane = pane;
  state.detail = state.help = false;
  state.scroll = 0;
}

void move(ViewState& state, const ViewLimits& limits, int by) {
  const Pane pane = moved_in(state);
  if (state.help || state.detail)
    state.scroll = std::clamp(state.scroll + by, 0, limits.scroll);
  else if (pane == Pane::kRanks)
    state.rank_row =
        std::clamp(state.rank_row < 0 ? (by > 0 ? by - 1 : 0) : state.rank_row + by, 0, std::max(limits.ranks - 1, 0));
  else if (pane == Pane::kFindings)
    state.finding = std::clamp(state.finding + by, 0, std::max(limits.findings - 1, 0));
  else
    state.scroll = std::clamp(state.scroll + (pane == Pane::kOutput ? -by : by), 0, limits.scroll);
}

void sort_by_next(ViewState& state, const ViewLimits& limits, int by) {
  const int count = static_cast<int>(limits.sorts.size()) + 1;  // one more: none
  const auto found = std::ranges::find(limits.sorts, state.sort);
  const int now = found == limits.sorts.end() ? 0 : static_cast<int>(found - limits.sorts.begin()) + 1;
  const int next = (now + by + count) % count;
  state.sort = next == 0 ? "" : limits.sorts[static_cast<size_t>(next - 1)];
  state.rank_row = -1;
}

void next_list(ViewState& state, int by) {
  static constexpr std::array kLists = {Pane::kRanks, Pane::kFindings, Pane::kOutput};
  const auto at = static_cast<int>(std::ranges::find(kLists, state.focus) - kLists.begin());
  state.focus = kLists[static_cast<size_t>((at + by + 3) % 3)];
  state.scroll = 0;
}

void choose_finding(ViewState& state, const ViewLimits& limits, int by) {
  state.finding = std::clamp(state.finding + by, 0, std::max(limits.findings - 1, 0));
  state.scroll = 0;
}

Action apply_character(ViewState& state, char character, const ViewLimits& limits) {
  switch (character) {
    case 'q':
    case 'Q': return Action::kQuit;
    case '?':
    case 'h': state.help = !state.help, state.scroll = 0; return Action::kDraw;
    case ' ': state.paused = !state.paused; return Action::kDraw;
    case 's': sort_by_next(state, limits, 1); return Action::kDraw;
    case 'S': sort_by_next(state, limits, -1); return Action::kDraw;
    case 'r': state.ascending = !state.ascending, state.rank_row = -1; return Action::kDraw;
    case 'j': move(state, limits, 1); return Action::kDraw;
    case 'k': move(state, limits, -1); return Action::kDraw;
    case 'n': choose_finding(state, limits, 1); return Action::kDraw;
    case 'p': choose_finding(state, limits, -1); return Action::kDraw;
    default: break;
  }
  const int pane = character - '1';
  if (pane < 0 || pane >= kPaneCount) return Action::kNone;
  open(state, static_cast<Pane>(pane));
  return Action::kDraw;
}

}  // namespace

std::string_view title_of(Pane pane) { return kTitles[static_cast<size_t>(pane)]; }

Action apply_key(ViewState& state, const Key& key, const ViewLimits& limits) {
  constexpr int kFar = 1'000'000;
  switch (key.kind) {
    case KeyKind::kChar: return apply_character(state, key.character, limits);
    case KeyKind::kEnter:
      if (state.help || limits.findings == 0) return Action::kNone;
      state.detail = !state.detail;
      state.scroll = 0;
      break;
    case KeyKind::kEscape:
    case KeyKind::kBackspace:
      if (state.help)
        state.help = false;
      else if (state.detail)
        state.detail = false;
      else
        open(state, Pane::kOverview);
      state.scroll = 0;
      break;
    case KeyKind::kTab: next_list(state, 1); break;
    case KeyKind::kBackTab: next_list(state, -1); break;
    case KeyKind::kLeft: choose_finding(state, limits, -1); break;
    case KeyKind::kRight: choose_finding(state, limits, 1); break;
    case KeyKind::kUp: move(state, limits, -1); break;
    case KeyKind::kDown: move(state, limits, 1); break;
    case KeyKind::kPageUp: move(state, limits, -std::max(limits.page_rows, 1)); break;
    case KeyKind::kPageDown: move(state, limits, std::max(limits.page_rows, 1)); break;
    case KeyKind::kHome: move(state, limits, -kFar); break;
    case KeyKind::kEnd: move(state, limits, kFar); break;
  }
  return Action::kDraw;
}

}  // namespace stepscope::tui
