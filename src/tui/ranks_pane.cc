#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/text_format.h"
#include "report/heat_map.h"
#include "report/rank_rows.h"
#include "report/rank_table.h"
#include "report/text_charts.h"
#include "report/text_layout.h"
#include "report/text_table.h"
#include "tui/panes.h"

namespace stepscope::tui {
namespace {

constexpr int kMark = 2, kGap = 2;
constexpr int kLeastHeat = 12, kMostHeat = 120;

std::vector<const RankStat*> all_ranks(const Snapshot& s) {
  std::vector<const RankStat*> ranks;
  for (const RankStat& r : s.ranks) ranks.push_back(&r);
  return ranks;
}

// Who the verdict names, other culprits, then who delays others most, then the slowest by itself.
void by_blame(const Snapshot& s, std::vector<const RankStat*>& ranks) {
  const std::set<int> culprits = culprit_ranks(s);
  std::set<int> primary;
  if (s.primary >= 0)
    primary.insert(s.findings[static_cast<size_t>(s.primary)].ranks.begin(),
                   s.findings[static_cast<size_t>(s.primary)].ranks.end());
  const auto figure = [](std::optional<double> value) { return value && std::isfinite(*value) ? *value : 0; };
  const auto worth = [&](const RankStat* r) {
    return std::tuple(primary.contains(r->rank), culprits.contains(r->rank), figure(r->caused_wait_ms),
                      figure(r->own_ms));
  };
  std::ranges::stable_sort(ranks, [&](const RankStat* a, const RankStat* b) { return worth(a) > worth(b); });
}

std::string title_of(const RankColumn& column) { return column.column.title; }

// The table with titles that say what it is sorted by. A state that all ranks share tells nothing.
Table shown_table(const Snapshot& s, const std::vector<const RankStat*>& ranks,
                  const std::vector<const RankColumn*>& columns, const ViewState& state) {
  Table table = rank_table(s, ranks, columns);
  const size_t last = table.columns.size() - 1;
  const bool same_state = std::ranges::all_of(
      s.ranks, [&](const RankStat& r) { return rank_state_text(r) == rank_state_text(s.ranks.front()); });
  if (same_state && columns[last]->column.title == "State") {
    table.columns.pop_back();
    for (Row& row : table.rows) row.cells.pop_back();
  }
  for (Column& column : table.columns) {
    const bool sorted = !state.sort.empty() && column.title == state.sort;
    if (!column.unit.empty()) column.title += " " + column.unit;
    column.unit.clear();
    if (sorted) column.title += state.ascending ? " ▴" : " ▾", column.priority = 0;
  }
  return table;
}

// The newest steps, one cell each.
Line heat_of(const HeatRow* row, int columns) {
  if (!row) return {};
  HeatRow newest = *row;
  const auto count = std::min(newest.levels.size(), static_cast<size_t>(columns));
  newest.levels.erase(newest.levels.begin(), newest.levels.end() - static_cast<std::ptrdiff_t>(count));
  return heat_cells(newest, count);
}

std::string steps_shown(const Snapshot& s, int columns) {
  const size_t count = std::min(s.recent.size(), static_cast<size_t>(columns));
  return formatted("steps {} to {}", format_count(s.recent[s.recent.size() - count].step),
                   format_count(s.recent.back().step));
}

}  // namespace

std::vector<std::string> rank_sorts(const Snapshot& s) {
  std::vector<std::string> out;
  for (const RankColumn* column : rank_columns(s, all_ranks(s))) out.push_back(title_of(*column));
  return out;
}

std::vector<const RankStat*> ranks_in_order(const Snapshot& s, const ViewState& state) {
  std::vector<const RankStat*> ranks = all_ranks(s);
  const std::vector<const RankColumn*> columns = rank_columns(s, ranks);
  const auto column = std::ranges::find(columns, state.sort, [](const RankColumn* c) { return title_of(*c); });
  if (column == columns.end()) {
    by_blame(s, ranks);
  } else {
    std::ranges::stable_sort(ranks, [&](const RankStat* a, const RankStat* b) { return (*column)->before(s, *a, *b); });
  }
  if (state.ascending) std::ranges::reverse(ranks);
  return ranks;
}

Lines rank_lines(const Told& told, const ViewState& state, const Room& room, bool chosen) {
  const Snapshot& s = told.snapshot;
  if (s.ranks.empty() || room.rows < 2) return {};
  const std::vector<const RankStat*> order = ranks_in_order(s, state);
  const int count = static_cast<int>(order.size());
  const bool named = room.rows >= 3;
  const int rows = std::min(count, room.rows - 1 - (named ? 1 : 0));
  const int first = std::clamp(state.rank_row - rows + 1, 0, count - rows);
  const std::vector<const RankStat*> shown(order.begin() + first, order.begin() + first + rows);

  const bool heat = s.recent.size() >= 2 && room.columns >= 70;
  const int heat_columns =
      !heat ? 0 : std::clamp(room.columns / 4, kLeastHeat, std::min(kMostHeat, static_cast<int>(s.recent.size())));
  const int text_columns = room.columns - kMark - (heat ? heat_columns + kGap : 0);
  const TextTableLines table = text_table(shown_table(s, shown, rank_columns(s, all_ranks(s)), state),
                                          static_cast<size_t>(std::max(text_columns, 4)));
  size_t width = 0;
  for (const std::string& line : table.head) width = std::max(width, display_width(line));
  for (const std::string& line : table.rows) width = std::max(width, display_width(line));
  // What the table leaves goes to the strip.
  const int strip = heat ? std::min(room.columns - kMark - static_cast<int>(width) - kGap, kMostHeat) : 0;
  std::vector<size_t> indices;
  for (const RankStat* r : shown) indices.push_back(static_cast<size_t>(r - s.ranks.data()));
  const HeatMap map = heat ? heat_map(s, indices) : HeatMap{};

  Lines lines;
  if (named) {
    const std::string order_text = state.sort.empty() ? "those that delay others most first" : "by " + state.sort;
    const std::string which = rows < count ? formatted("{} to {} of {}, ", first + 1, first + rows,
                                                       format_count(static_cast<uint64_t>(count)))
                                           : "";
    lines.push_back(heading("Ranks", which + order_text + (state.ascending ? ", reversed" : ""), chosen));
  }
  Line head = {
      {pad_right("  " + (table.head.empty() ? std::string() : table.head.front()), width + kMark + kGap), ink::kDim}};
  if (strip > 0) head.push_back({clip(steps_shown(s, strip), static_cast<size_t>(strip)), ink::kDim});
  lines.push_back(std::move(head));
  const std::set<int> culprits = culprit_ranks(s);
  for (int i = 0; i < rows; ++i) {
    const bool culprit = culprits.contains(shown[static_cast<size_t>(i)]->rank);
    const bool here = chosen && first + i == state.rank_row;
    Ink ink = culprit ? ink::kYellow : ink::kPlain;
    ink.reverse = here;
    Line line = {{culprit ? "▸ "
                  : here  ? "› "
                          : "  ",
                  ink},
                 {pad_right(table.rows[static_cast<size_t>(i)], width), ink},
                 {"  "}};
    if (strip > 0 && static_cast<size_t>(i) < map.rows.size())
      for (TextPage::Piece& piece : heat_of(&map.rows[static_cast<size_t>(i)], strip)) line.push_back(std::move(piece));
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace stepscope::tui
