#include "tui/screen.h"

#include <algorithm>
#include <functional>

#include "report/text_charts.h"
#include "tui/panes.h"

namespace stepscope::tui {
namespace {

constexpr int kSideBySide = 150;  // columns from which two panes stand beside each other
constexpr int kNarrow = 40;
constexpr int kAiry = 36;  // rows from which a blank line parts the panes

// A pane of the overview: how many rows it needs to say anything, and how many it would like.
struct Part {
  int least = 0, most = 0;
  std::function<Lines(Room)> draw;
  int rows = 0;
};

// Rows for each part: first what each needs, in the order of importance, then what they would like.
void share_out(std::vector<Part*> by_importance, int rows, int gap) {
  for (Part* part : by_importance) {
    const int needs = std::min(part->least, part->most);
    if (needs == 0 || needs + gap > rows) continue;
    part->rows = needs;
    rows -= needs + gap;
  }
  for (Part* part : by_importance) {
    if (part->rows == 0) continue;
    const int more = std::min(part->most - part->rows, rows);
    part->rows += more;
    rows -= more;
  }
}

bool measured(const Told& told) {
  const Block* block = block_of(told.page, BlockKind::kSections);
  const auto* cards = block ? std::get_if<Cards>(&block->elements.front()) : nullptr;
  return cards && std::ranges::any_of(cards->cards, &Card::measured);
}

class Composer {
 public:
  Composer(const ScreenInput& in, const ViewState& state, const Size& size)
      : in_(in), state_(state), size_(size), grid_(size.columns, size.rows) {}

  Screen draw() {
    Screen screen;
    if (size_.columns > 0 && size_.rows > 0) compose(screen.limits);
    screen.grid = std::move(grid_);
    return screen;
  }

 private:
  void compose(ViewLimits& limits) {
    const int last = size_.rows - 1;  // the keys
    if (in_.told) {
      limits.ranks = static_cast<int>(in_.told->snapshot.ranks.size());
      limits.findings = static_cast<int>(in_.told->snapshot.findings.size());
      limits.sorts = rank_sorts(in_.told->snapshot);
    }
    // The verdict stays, whatever is looked at.
    int y = put(head_lines(in_, state_, {size_.columns, last}), 0, 0, size_.columns);
    const Room body{size_.columns, last - y};
    limits.page_rows = std::max(body.rows - 2, 1);
    if (state_.help)
      scrolled(help_lines(body.columns), y, body, limits);
    else if (in_.told && state_.detail)
      scrolled(detail_lines(*in_.told, state_, body.columns), y, body, limits);
    else if (in_.told && state_.pane != Pane::kOverview)
      one_pane(y, body, limits);
    else
      overview(y, body, limits);
    if (last > 0) put_last(last);
  }

  void put_last(int y) {
    const Line keys = key_line(state_, size_.columns);
    if (in_.notice.empty()) {
      grid_.put(0, y, keys);
      return;
    }
    grid_.put(0, y, in_.notice, ink::kYellow);
  }

  // What is wider is cut, and shows that.
  int put(const Lines& lines, int x, int y, int columns) {
    for (const Line& line : lines) grid_.put(x, y++, cut(line, columns));
    return y;
  }

  void scrolled(const Lines& lines, int y, const Room& room, ViewLimits& limits) {
    limits.scroll = std::max(static_cast<int>(lines.size()) - room.rows, 0);
    const int from = std::clamp(state_.scroll, 0, limits.scroll);
    for (int i = 0; i < room.rows && from + i < static_cast<int>(lines.size()); ++i)
      grid_.put(0, y + i, cut(lines[static_cast<size_t>(from + i)], room.columns));
  }

  void one_pane(int y, const Room& room, ViewLimits& limits) {
    const Told& told = *in_.told;
    Lines lines;
    const auto add = [&](Lines more) {
      if (!lines.empty() && !more.empty()) lines.emplace_back();
      lines.insert(lines.end(), more.begin(), more.end());
    };
    switch (state_.pane) {
      case Pane::kRanks:
        lines = rank_lines(told, state_, {room.columns, room.rows - 2}, true);
        for (std::string& part : wrapped(heat_legend(), room.columns, 1)) add({{{std::move(part), ink::kDim}}});
        put(lines, 0, y, room.columns);
        return;
      case Pane::kFindings: put(finding_lines(told, state_, room, true, false), 0, y, room.columns); return;
      case Pane::kOutput:
        limits.scroll = in_.output ? std::max(static_cast<int>(in_.output->lines().size()) - room.rows + 1, 0) : 0;
        lines = output_lines(in_, state_, room, true);
        if (lines.empty())
          lines = {heading("Output", "stepscope run --mode cli keeps it; this run's is elsewhere, or there is none yet",
                           true)};
        put(lines, 0, y, room.columns);
        return;
      case Pane::kSteps:
        add(trend_lines(in_, room));
        for (const BlockKind kind : {BlockKind::kStepTime, BlockKind::kEpochs, BlockKind::kCollectives})
          add(block_lines(told, kind, room.columns));
        break;
      case Pane::kMemory:
        add({memory_trend(in_, room.columns)});
        add(memory_lines(in_, room.columns));
        break;
      case Pane::kSystem:
        for (const BlockKind kind : {BlockKind::kSections, BlockKind::kChecks, BlockKind::kObserver})
          add(block_lines(told, kind, room.columns));
        break;
      case Pane::kOverview: break;
    }
    scrolled(lines, y, room, limits);
  }

  Part whole(const Lines& lines) const {
    const int rows = static_cast<int>(lines.size());
    return {.least = rows, .most = rows, .draw = [lines](Room) { return lines; }};
  }

  // A block as it is where it fits, for rooms with space to spare.
  Part block(BlockKind kind, int columns) const {
    return whole(in_.told ? block_lines(*in_.told, kind, columns) : Lines{});
  }

  void overview(int y, const Room& room, ViewLimits& limits) {
    const int gap = size_.rows >= kAiry ? 1 : 0;
    y += gap;
    const int trend_end = put(trend_lines(in_, {room.columns, size_.rows}), 0, y, room.columns);
    y = trend_end + (trend_end > y ? gap : 0);
    const int rows = size_.rows - 1 - y;
    const int lines_out = in_.output && room.columns >= kNarrow ? static_cast<int>(in_.output->lines().size()) : 0;
    limits.scroll = std::max(lines_out - 1, 0);
    Part output{.least = lines_out > 0 ? 2 : 0,
                .most = lines_out > 0 ? std::min(lines_out, 8) + 1 : 0,
                .draw = [&](Room r) { return output_lines(in_, state_, r, state_.focus == Pane::kOutput); }};
    if (!in_.told) {
      share_out({&output}, rows, gap);
      stack({&output}, 0, y, room.columns, gap);
      return;
    }
    const Told& told = *in_.told;
    const auto ranks_count = static_cast<int>(told.snapshot.ranks.size()),
               found = static_cast<int>(told.snapshot.findings.size());
    const bool two = room.columns >= kSideBySide;
    const int left = two ? room.columns * 3 / 5 : room.columns, right = two ? room.columns - left - 2 : room.columns;
    Part phases = whole(phase_lines(told, {left, 12}));
    Part ranks{.least = ranks_count > 0 ? 2 + std::min(ranks_count, 2) : 0,
               .most = ranks_count > 0 ? 2 + ranks_count : 0,
               .draw = [&](Room r) { return rank_lines(told, state_, r, state_.focus == Pane::kRanks); }};
    const int others = found - (told.snapshot.primary >= 0 ? 1 : 0);
    const bool narrow = room.columns < kNarrow;  // names of findings and lines of output need room
    Part findings{
        .least = others > 0 && !narrow ? 2 : 0, .most = others > 0 && !narrow ? others + 1 : 0, .draw = [&](Room r) {
          return finding_lines(told, state_, r, state_.focus == Pane::kFindings, true);
        }};
    Part memory = block(BlockKind::kMemory, left),
         sections = measured(told) ? block(BlockKind::kSections, right) : Part{},
         collectives = block(BlockKind::kCollectives, right);
    if (two) {
      share_out({&ranks, &phases, &memory}, rows, gap);
      share_out({&findings, &output, &sections, &collectives}, rows, gap);
      stack({&phases, &ranks, &memory}, 0, y, left, gap);
      stack({&findings, &sections, &collectives, &output}, left + 2, y, right, gap);
      return;
    }
    share_out({&ranks, &phases, &findings, &output, &memory, &sections, &collectives}, rows, gap);
    stack({&phases, &ranks, &memory, &findings, &sections, &collectives, &output}, 0, y, room.columns, gap);
  }

  void stack(const std::vector<Part*>& parts, int x, int y, int columns, int gap) {
    for (const Part* part : parts) {
      if (part->rows == 0) continue;
      put(part->draw({columns, part->rows}), x, y, columns);
      y += part->rows + gap;
    }
  }

  const ScreenInput& in_;
  const ViewState& state_;
  const Size size_;
  Grid grid_;
};

}  // namespace

Screen draw_screen(const ScreenInput& input, const ViewState& state, const Size& size) {
  return Composer(input, state, size).draw();
}

}  // namespace stepscope::tui
