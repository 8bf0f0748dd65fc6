#include <algorithm>
#include <cmath>

#include "base/text_format.h"
#include "report/heat_map.h"
#include "report/text_charts.h"
#include "report/text_layout.h"
#include "tui/panes.h"

namespace stepscope::tui {
namespace {

constexpr int kNarrow = 60;  // below: words below each other
constexpr int kRoomForMemory = 26;
constexpr double kSilent_s = 5;  // from here on it is said how old the figures are
constexpr std::string_view kEdge = "▌";

Line state_piece(const ScreenInput& in, const ViewState& state) {
  if (in.live && in.silent_s >= kSilent_s)
    return {{"no news for " + format_seconds(std::floor(in.silent_s)), ink::kYellow}};
  if (state.paused) return {{"paused", ink::kYellow}};
  if (!in.told) return {{"starting", ink::kDim}};
  const RunInfo& run = in.told->snapshot.run;
  const std::string since = run.duration_s > 0 ? " " + format_seconds(run.duration_s) : "";
  const bool ended_badly = in.told->page.ended_badly;
  return {{status_text(run) + since, ended_badly ? ink::kYellow : in.live ? ink::kGreen : ink::kDim}};
}

// "2 ranks on 1 node", "240 steps", "p50 79.4 ms", "804 samples/s": as many as fit, whole.
Line run_line(const ScreenInput& in, int columns) {
  const Snapshot& s = in.told->snapshot;
  std::vector<std::string> phrases;
  const std::vector<std::string> run = run_phrases(s.run, s.steps), steps = step_phrases(s);
  phrases.assign(run.begin(), run.begin() + std::min<std::ptrdiff_t>(2, std::ssize(run)));
  if (s.wall_ms.p50 && !steps.empty()) phrases.push_back(steps.front());
  for (std::string& phrase : value_phrases(s.throughput)) phrases.push_back(std::move(phrase));
  Line line = {{printable(s.run.name), ink::kBold}};
  int left = columns - width_of(line);
  for (const std::string& phrase : phrases) {
    const std::string text = " · " + printable(phrase);
    if (static_cast<int>(display_width(text)) > left) break;
    left -= static_cast<int>(display_width(text));
    line.push_back({text});
  }
  return line;
}

// A word and what it says, below the name.
void add_labelled(Lines& lines, const Ink& edge, std::string_view label, const std::string& text, int columns,
                  int rows) {
  if (text.empty() || rows <= 0) return;
  const int margin = columns < kNarrow ? 0 : static_cast<int>(display_width(label)) + 1;
  const std::string whole = margin == 0 ? std::string(label) + " " + printable(text) : printable(text);
  bool first = true;
  for (std::string& part : wrapped(whole, columns - 2 - margin, rows)) {
    Line line = {{std::string(kEdge) + " ", edge}};
    if (margin > 0) line.push_back({pad_right(first ? label : "", static_cast<size_t>(margin)), ink::kDim});
    line.push_back({std::move(part)});
    lines.push_back(std::move(line));
    first = false;
  }
}

void add_verdict(Lines& lines, const Told& told, const Room& room) {
  const Verdict& v = told.page.verdict;
  const bool costs = v.severity != Severity::kInfo;
  const Ink edge = costs ? ink::of(v.severity) : told.snapshot.primary >= 0 ? ink::kGreen : ink::kDim;
  Ink name_ink = edge;
  name_ink.bold = true;
  const std::string title = printable(v.name) + (costs ? " (" + std::string(name(v.severity)) + ")" : "");
  const int columns = room.columns - 2;
  const int wanted = columns < kNarrow ? 6 : 2;
  const std::string headline = printable(v.headline);
  Line first = {{std::string(kEdge) + " ", edge}, {clip(title, static_cast<size_t>(std::max(columns, 1))), name_ink}};
  // Beside the name what fits there, the rest below it.
  const int beside = columns - static_cast<int>(display_width(title)) - 2;
  std::string rest = headline;
  if (beside >= 24) {
    const std::vector<std::string> parts = wrap(headline, static_cast<size_t>(beside));
    if (!parts.empty()) {
      first.push_back({"  " + parts.front(), ink::kBold});
      rest = headline.substr(std::min(parts.front().size(), headline.size()));
      rest.erase(0, rest.find_first_not_of(' '));
    }
  }
  lines.push_back(std::move(first));
  for (std::string& part : wrapped(rest, columns, wanted - (beside >= 24 ? 1 : 0)))
    lines.push_back({{std::string(kEdge) + " ", edge}, {std::move(part), ink::kBold}});
  std::string cost = v.cost;
  if (!v.saves_share.empty() && columns >= kNarrow)
    cost += (cost.empty() ? "" : " · ") + ("fixing it saves " + v.saves_share);
  add_labelled(lines, edge, "costs", cost, room.columns, columns < kNarrow ? 3 : 1);
  if (columns < kNarrow) add_labelled(lines, edge, "saves", v.saves_share, room.columns, 2);
  add_labelled(lines, edge, "next ", v.action, room.columns, columns < kNarrow ? 4 : 2);
}

// "label  bars  remark", the bars taking what is left.
Line bar_line(std::string_view label, std::span<const double> values, double floor, double top,
              const std::string& remark, int columns, const Ink& ink) {
  const int room = columns - 8 - static_cast<int>(display_width(remark)) - 2;
  if (room < 8) return {{pad_right(label, 8), ink::kDim}, {remark}};
  const std::string bars = bars_of(values, static_cast<size_t>(room), floor, top);
  return {
      {pad_right(label, 8), ink::kDim}, {pad_right(bars, static_cast<size_t>(room)), ink}, {"  " + remark, ink::kDim}};
}

Line step_times(const Told& told, int columns) {
  const Block* block = block_of(told.page, BlockKind::kSteps);
  const auto* chart = block ? std::get_if<StepChart>(&block->elements.front()) : nullptr;
  if (!chart) return {};
  const auto [lowest, highest] = std::ranges::minmax(chart->wall_ms);
  // Jitter of a few percent must not look like a mountain range, nor one long step like a plain.
  const double floor = std::min(lowest, 0.7 * chart->median_ms);
  const double top = std::clamp(highest, 1.3 * chart->median_ms, 2 * chart->median_ms);
  const std::string remark = formatted("{} to {}", format_ms(lowest), format_ms(highest));
  return bar_line("steps", chart->wall_ms, floor, top, remark, columns, ink::kCyan);
}

Line memory_times(const MemoryTrack& track, int columns) {
  const std::vector<double>& bytes = track.bytes();
  if (bytes.size() < 2) return {};
  const auto [lowest, highest] = std::ranges::minmax(bytes);
  const std::string remark = formatted("{} to {}, of the {}", format_bytes(lowest), format_bytes(highest),
                                       track.label() == "host" ? "host" : "largest " + track.label());
  return bar_line("memory", bytes, std::min(lowest, 0.7 * highest), highest, remark, columns,
                  {.color = 117, .rgb = 0x8fd0f5});
}

}  // namespace

Told::Told(Snapshot from)
    : snapshot(std::move(from)), page(build_page(snapshot, {.ranks = 0, .bars = 0, .heat_rows = 0, .findings = 0})) {}

Lines head_lines(const ScreenInput& in, const ViewState& state, const Room& room) {
  Lines lines;
  Line right = state_piece(in, state);
  if (!in.told) {
    lines.push_back(both_ends({{printable(in.run_name), ink::kBold}}, right, room.columns));
    lines.push_back({{std::string(kEdge) + " ", ink::kDim},
                     {in.live ? "Waiting for the first answer of the run's agent." : "Nothing is known of this run."}});
    return lines;
  }
  Line run = run_line(in, room.columns - width_of(right) - 1);
  if (width_of(run) + 1 + width_of(right) > room.columns && !right.empty())  // at least the word
    right.front().text = right.front().text.substr(0, right.front().text.find(' '));
  lines.push_back(both_ends(run, right, room.columns));
  if (!state.detail) add_verdict(lines, *in.told, room);
  if (static_cast<int>(lines.size()) > room.rows) lines.resize(static_cast<size_t>(std::max(room.rows, 0)));
  return lines;
}

Lines trend_lines(const ScreenInput& in, const Room& room) {
  Lines lines;
  if (!in.told || room.columns < kNarrow) return lines;
  if (const Block* block = block_of(in.told->page, BlockKind::kLedger)) {
    if (const auto* chart = std::get_if<LedgerChart>(&block->elements.front())) {
      Line bar = {{pad_right("time", 8), ink::kDim}};
      for (TextPage::Piece& piece : ledger_bar(*chart, static_cast<size_t>(room.columns - 8)))
        bar.push_back(std::move(piece));
      lines.push_back(std::move(bar));
      Line key = ledger_key(*chart, static_cast<size_t>(room.columns - 8));
      key.insert(key.begin(), TextPage::Piece{std::string(8, ' ')});
      lines.push_back(std::move(key));
    }
  }
  if (Line line = step_times(*in.told, room.columns); !line.empty()) lines.push_back(std::move(line));
  if (room.rows >= kRoomForMemory)
    if (Line line = memory_trend(in, room.columns); !line.empty()) lines.push_back(std::move(line));
  return lines;
}

Line memory_trend(const ScreenInput& in, int columns) { return in.memory ? memory_times(*in.memory, columns) : Line{}; }

}  // namespace stepscope::tui
