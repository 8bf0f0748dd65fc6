#include <algorithm>

#include "base/text_format.h"
#include "report/page_text.h"
#include "report/text_charts.h"
#include "report/text_layout.h"
#include "report/text_table.h"
#include "tui/panes.h"

namespace stepscope::tui {
namespace {

struct KeyHelp {
  std::string_view keys, says;
};
constexpr KeyHelp kKeys[] = {
    {"q", "leave; the training goes on"},
    {"enter", "why: evidence, what to do, line of code of the chosen finding"},
    {"n p", "next, previous finding"},
    {"1 … 7", "overview, ranks, steps, findings, memory, system, output"},
    {"esc", "back"},
    {"up down", "move; also j k, page up, page down, home, end"},
    {"tab", "in the overview: the list that the arrows move in"},
    {"s S", "sort the ranks by the next, the previous column"},
    {"r", "the other way round"},
    {"space", "hold the picture, go on"},
    {"? h", "this page"},
};

// The marks that tables have, left of their rows.
Lines table_lines(const Table& table, int columns) {
  TextPage page(static_cast<size_t>(std::max(columns, 2)));
  page.table(table);
  return page.lines();
}

}  // namespace

int width_of(const Line& line) {
  size_t width = 0;
  for (const TextPage::Piece& piece : line) width += display_width(piece.text);
  return static_cast<int>(width);
}

Line cut(const Line& line, int columns) {
  if (width_of(line) <= columns) return line;
  Line out;
  size_t left = static_cast<size_t>(std::max(columns, 0));
  for (const TextPage::Piece& piece : line) {
    // The last one that still finds room shows that something is missing.
    const bool last = display_width(piece.text) >= left;
    out.push_back({last ? clip(piece.text + "  ", left) : piece.text, piece.style});
    if (last) break;
    left -= display_width(piece.text);
  }
  return out;
}

Line heading(std::string_view title, std::string_view aside, bool chosen) {
  Line line = {{std::string(title), chosen ? Ink{.bold = true, .color = 6} : ink::kBold}};
  if (!aside.empty()) line.push_back({"  " + std::string(aside), ink::kDim});
  return line;
}

Line both_ends(const Line& left, const Line& right, int columns) {
  const int gap = columns - width_of(left) - width_of(right);
  if (gap < 1) return left;
  Line line = left;
  line.push_back({std::string(static_cast<size_t>(gap), ' ')});
  line.insert(line.end(), right.begin(), right.end());
  return line;
}

std::vector<std::string> wrapped(std::string_view text, int columns, int rows) {
  const auto width = static_cast<size_t>(std::max(columns, 2));
  std::vector<std::string> lines = wrap(text, width);
  const auto most = static_cast<size_t>(std::max(rows, 0));
  if (lines.size() <= most) return lines;
  if (most == 0) return {};
  // What does not fit any more shows in the last line, cut.
  std::string rest = lines[most - 1];
  for (size_t i = most; i < lines.size(); ++i) rest += " " + lines[i];
  lines.resize(most);
  lines.back() = clip(rest, width);
  return lines;
}

Lines phase_lines(const Told& told, const Room& room) {
  const Block* block = block_of(told.page, BlockKind::kStepTime);
  const auto* table = block ? std::get_if<Table>(&block->elements.front()) : nullptr;
  if (!table || room.rows < 2) return {};
  const auto measured = [](const Row& row) { return row.cells.size() > 1 && row.cells[1] != kNotMeasured; };
  if (std::ranges::none_of(table->rows, measured)) return {};
  // All figures of this table have one unit: it stands where the first column has no title.
  Table small = *table;
  for (Column& column : small.columns) column.unit.clear();
  small.columns.front().title = "Own time per step, ms";
  Lines lines = table_lines(small, room.columns);
  for (TextPage::Piece& piece : lines.front()) piece.style = ink::kDim;
  if (static_cast<int>(lines.size()) > room.rows) lines.resize(static_cast<size_t>(room.rows));
  return lines;
}

Lines output_lines(const ScreenInput& in, const ViewState& state, const Room& room, bool chosen) {
  if (!in.output || in.output->lines().empty() || room.rows < 2) return {};
  const auto& all = in.output->lines();
  const int count = static_cast<int>(all.size()), shown = std::min(count, room.rows - 1);
  const int back = chosen ? std::clamp(state.scroll, 0, count - shown) : 0;
  Lines lines = {heading(
      "Output", back > 0 ? formatted("{} newer lines below", back) : "of the training; all of it is shown at the end",
      chosen)};
  const bool ranks = std::ranges::any_of(all, [](const OutputLine& l) { return l.rank >= 0; });
  for (int i = count - shown - back; i < count - back; ++i) {
    const OutputLine& line = all[static_cast<size_t>(i)];
    const std::string who = line.rank < 0 ? "" : formatted("rank {}", line.rank);
    Line out = {{"  "}};
    if (ranks) out.push_back({pad_right(who, 10), ink::kDim});
    out.push_back({clip(line.text, static_cast<size_t>(std::max(room.columns - (ranks ? 12 : 2), 1)))});
    lines.push_back(std::move(out));
  }
  return lines;
}

Lines block_lines(const Told& told, BlockKind kind, int columns) {
  const Block* block = block_of(told.page, kind);
  if (!block) return {};
  TextPage page(static_cast<size_t>(std::max(columns, 40)));
  for (const Element& element : block->elements) write_element(page, element);
  Lines lines = {heading(block->title, block->aside, false)};
  lines.insert(lines.end(), page.lines().begin(), page.lines().end());
  return lines;
}

Lines memory_lines(const ScreenInput& in, int columns) {
  Lines lines = block_lines(*in.told, BlockKind::kMemory, columns);
  const Lines ahead = block_lines(*in.told, BlockKind::kForecast, columns);
  lines.insert(lines.end(), ahead.begin(), ahead.end());
  if (!lines.empty()) return lines;
  return {heading(
      "Memory",
      "no device memory was measured; the ranks' processes stand in the table of ranks (2) and under system (6)",
      false)};
}

Lines help_lines(int columns) {
  TextPage page(static_cast<size_t>(std::max(columns, 20)));
  for (const KeyHelp& help : kKeys) page.paragraph("  " + std::string(help.keys), help.says, 12);
  page.blank();
  page.paragraph("", "Rank × step: " + heat_legend(), 2, ink::kDim);
  page.paragraph("",
                 "own: without waiting for others; delays others: how long they wait for this rank; ▸ marks ranks that "
                 "findings name.",
                 2, ink::kDim);
  Lines lines = {heading("Keys", "", true)};
  lines.insert(lines.end(), page.lines().begin(), page.lines().end());
  return lines;
}

Line key_line(const ViewState& state, int columns) {
  std::vector<KeyHelp> keys = {{"q", "quit"}, {"?", "keys"}};
  if (state.help || state.detail || state.pane != Pane::kOverview)
    keys.insert(keys.end(), {{"esc", "back"}, {"↑↓", "move"}});
  if (!state.help) keys.push_back({"enter", state.detail ? "close" : "why"});
  if (state.detail) keys.push_back({"n p", "next, previous"});
  if (!state.help && !state.detail) keys.insert(keys.end(), {{"1-7", "panes"}, {"s r", "sort"}, {"tab", "list"}});
  keys.push_back({"space", state.paused ? "go on" : "hold"});
  Line line;
  int used = 0;
  for (const KeyHelp& key : keys) {
    const std::string gap = used == 0 ? "" : "  ";
    const int width = static_cast<int>(gap.size() + display_width(key.keys) + 1 + display_width(key.says));
    if (used + width > columns) break;
    line.push_back({gap});
    line.push_back({std::string(key.keys), ink::kBold});
    line.push_back({" " + std::string(key.says), ink::kDim});
    used += width;
  }
  return line;
}

}  // namespace stepscope::tui
