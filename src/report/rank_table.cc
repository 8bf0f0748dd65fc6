#include "report/rank_table.h"

#include <algorithm>
#include <cmath>

#include "report/figures.h"
#include "report/rank_rows.h"

namespace stepscope {
namespace {

using Figure = std::optional<double>;

Figure phase_of(const RankStat& rank, const char* phase) {
  const auto found = rank.phase_ms.find(phase);
  return found == rank.phase_ms.end() ? std::nullopt : found->second;
}

Figure device_peak(const Snapshot& s, const RankStat& rank) {
  const auto found = std::ranges::find(s.memory, rank.rank, &DeviceMemoryRank::rank);
  return found == s.memory.end() ? std::nullopt : found->peak_bytes;
}

// A column of one figure: cell, order and whether it is known come from it.
#define FIGURE(expression) [](const Snapshot& s, const RankStat& r) -> Figure { return (void)s, (void)r, expression; }
#define CELL(format, expression) \
  [](const Snapshot& s, const RankStat& r) -> std::string { return (void)s, (void)r, format(expression); }
#define KNOWN(expression) \
  [](const Snapshot& s, const RankStat& r) { return (void)s, (void)r, (expression).has_value(); }
#define ALWAYS(format, expression) CELL(format, expression), FIGURE(expression)
#define WHERE_KNOWN(format, expression) CELL(format, expression), FIGURE(expression), KNOWN(expression)

std::string rate(Figure value) { return format_value("", value); }

const RankColumn kRankColumns[] = {
    {{.title = "Rank"},
     [](const Snapshot&, const RankStat& r) { return formatted("{}", r.rank); },
     FIGURE(-static_cast<double>(r.rank))},
    {{.title = "Host", .right = false, .priority = 2},
     [](const Snapshot&, const RankStat& r) { return r.hostname; },
     nullptr},
    {{.title = "Steps", .priority = 6},
     [](const Snapshot&, const RankStat& r) { return format_count(r.steps); },
     FIGURE(static_cast<double>(r.steps))},
    {{.title = "Step", .unit = "ms"}, ALWAYS(format_ms_bare, r.step_ms)},
    {{.title = "Own", .unit = "ms", .priority = 1}, ALWAYS(format_ms_bare, r.own_ms)},
    {{.title = "Waits", .unit = "ms", .priority = 1}, ALWAYS(format_ms_bare, r.stall_ms)},
    {{.title = "Delays others", .unit = "ms", .priority = 1}, ALWAYS(format_ms_bare, r.caused_wait_ms)},
    {{.title = "Input", .unit = "ms", .priority = 3}, ALWAYS(format_ms_bare, phase_of(r, "input_wait"))},
    {{.title = "Forward", .unit = "ms", .priority = 3}, ALWAYS(format_ms_bare, phase_of(r, "forward"))},
    {{.title = "Backward", .unit = "ms", .priority = 3}, ALWAYS(format_ms_bare, phase_of(r, "backward"))},
    {{.title = "Optimizer", .unit = "ms", .priority = 4}, ALWAYS(format_ms_bare, phase_of(r, "optimizer"))},
    {{.title = "Device peak", .priority = 5}, WHERE_KNOWN(format_bytes, device_peak(s, r))},
    {{.title = "CPU", .priority = 7}, WHERE_KNOWN(format_percent, r.cpu_share)},
    {{.title = "Peak RSS", .priority = 7}, WHERE_KNOWN(format_bytes, r.rss_peak_bytes)},
    {{.title = "Samples/s", .priority = 8}, WHERE_KNOWN(rate, r.samples_per_s)},
    {{.title = "Tokens/s", .priority = 9}, WHERE_KNOWN(rate, r.tokens_per_s)},
    {{.title = "MFU", .priority = 9}, WHERE_KNOWN(format_share, r.mfu)},
    {{.title = "State", .right = false},
     [](const Snapshot&, const RankStat& r) { return rank_state_text(r); },
     nullptr},
};

#undef FIGURE
#undef CELL
#undef KNOWN
#undef ALWAYS
#undef WHERE_KNOWN

}  // namespace

bool RankColumn::before(const Snapshot& s, const RankStat& a, const RankStat& b) const {
  if (!key) return cell(s, a) < cell(s, b);
  const auto figure = [&](const RankStat& r) {
    const Figure value = key(s, r);
    return value && !std::isnan(*value) ? *value : -INFINITY;
  };
  return figure(a) > figure(b);
}

std::vector<const RankColumn*> rank_columns(const Snapshot& s, std::span<const RankStat* const> ranks) {
  std::vector<const RankColumn*> columns;
  for (const RankColumn& c : kRankColumns) {
    const bool one_host = c.column.title == "Host" && s.run.nodes <= 1;
    const bool known = !c.known || std::ranges::any_of(ranks, [&](const RankStat* r) { return c.known(s, *r); });
    if (!one_host && known) columns.push_back(&c);
  }
  return columns;
}

Table rank_table(const Snapshot& s, std::span<const RankStat* const> ranks,
                 std::span<const RankColumn* const> columns) {
  const std::set<int> culprits = culprit_ranks(s);
  Table table;
  for (const RankColumn* c : columns) table.columns.push_back(c->column);
  for (const RankStat* r : ranks) {
    std::vector<std::string> cells;
    for (const RankColumn* c : columns) cells.push_back(c->cell(s, *r));
    table.add(std::move(cells), culprits.contains(r->rank) ? RowMark::kCulprit : RowMark::kNone);
  }
  return table;
}

}  // namespace stepscope
