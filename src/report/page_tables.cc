#include <algorithm>

#include "base/text_format.h"
#include "report/evidence_table.h"
#include "report/page_blocks.h"
#include "report/rank_rows.h"

namespace stepscope {
namespace {

std::string rank_cell(std::optional<int> rank) { return rank ? formatted("{}", *rank) : std::string(kNotMeasured); }

std::string step_row_label(const std::string& name) {
  return name == "step" ? "step (wall)" : name == "stall" ? "waiting + transfer" : category_label(name);
}

std::string phase_cell(const RankStat& rank, const char* phase) {
  const auto found = rank.phase_ms.find(phase);
  return format_ms_bare(found == rank.phase_ms.end() ? std::nullopt : found->second);
}

// Shown only where some rank has it: a column of dashes tells nothing.
struct RankColumn {
  Column column;
  std::string (*cell)(const RankStat&);
  bool (*known)(const RankStat&) = nullptr;  // null: always shown
};

const RankColumn kRankColumns[] = {
    {{.title = "Rank"}, [](const RankStat& r) { return formatted("{}", r.rank); }},
    {{.title = "Host", .right = false, .priority = 2}, [](const RankStat& r) { return r.hostname; }},
    {{.title = "Steps", .priority = 6}, [](const RankStat& r) { return format_count(r.steps); }},
    {{.title = "Step", .unit = "ms"}, [](const RankStat& r) { return format_ms_bare(r.step_ms); }},
    {{.title = "Own", .unit = "ms", .priority = 1}, [](const RankStat& r) { return format_ms_bare(r.own_ms); }},
    {{.title = "Waits", .unit = "ms", .priority = 1}, [](const RankStat& r) { return format_ms_bare(r.stall_ms); }},
    {{.title = "Delays others", .unit = "ms", .priority = 1},
     [](const RankStat& r) { return format_ms_bare(r.caused_wait_ms); }},
    {{.title = "Input", .unit = "ms", .priority = 3}, [](const RankStat& r) { return phase_cell(r, "input_wait"); }},
    {{.title = "Forward", .unit = "ms", .priority = 3}, [](const RankStat& r) { return phase_cell(r, "forward"); }},
    {{.title = "Backward", .unit = "ms", .priority = 3}, [](const RankStat& r) { return phase_cell(r, "backward"); }},
    {{.title = "Optimizer", .unit = "ms", .priority = 4}, [](const RankStat& r) { return phase_cell(r, "optimizer"); }},
    {{.title = "CPU", .priority = 7},
     [](const RankStat& r) { return format_percent(r.cpu_share); },
     [](const RankStat& r) { return r.cpu_share.has_value(); }},
    {{.title = "Peak RSS", .priority = 7},
     [](const RankStat& r) { return format_bytes(r.rss_peak_bytes); },
     [](const RankStat& r) { return r.rss_peak_bytes.has_value(); }},
    {{.title = "Samples/s", .priority = 8},
     [](const RankStat& r) { return format_value("", r.samples_per_s); },
     [](const RankStat& r) { return r.samples_per_s.has_value(); }},
    {{.title = "Tokens/s", .priority = 9},
     [](const RankStat& r) { return format_value("", r.tokens_per_s); },
     [](const RankStat& r) { return r.tokens_per_s.has_value(); }},
    {{.title = "MFU", .priority = 9},
     [](const RankStat& r) { return format_share(r.mfu); },
     [](const RankStat& r) { return r.mfu.has_value(); }},
    {{.title = "State", .right = false}, [](const RankStat& r) { return rank_state_text(r); }},
};

}  // namespace

Block step_time_block(const Snapshot& s) {
  Block block{"Step time", "own time per step: without waiting for other ranks", {}};
  Table table{{{.title = "", .right = false, .least_width = 20},
               {.title = "Median", .unit = "ms", .least_width = 9},
               {.title = "Worst", .unit = "ms", .least_width = 9},
               {.title = "Worst Rank", .least_width = 11},
               {.title = "Skew %", .priority = 1, .least_width = 8},
               {.title = "Share", .priority = 2, .least_width = 8}},
              {}};
  for (const EvidenceRow& row : step_time_rows(s)) {
    table.add({step_row_label(row.name), format_ms_bare(row.median), format_ms_bare(row.worst),
               rank_cell(row.worst_rank), format_skew(row.skew_pct), format_share(row.share)},
              row.name == "step" ? RowMark::kStrong : RowMark::kNone);
  }
  if (table.rows.empty()) return block;
  block.elements = {std::move(table), Phrases{step_phrases(s), Tone::kSoft}};
  return block;
}

Block ranks_block(const Snapshot& s, const PageSize& size) {
  Block block{"Ranks", "per step; own: without waiting for others; delays others: how long they wait for it", {}};
  if (s.ranks.empty()) return block;
  const std::vector<const RankStat*> ranks = ranks_to_show(s, size.ranks);
  const std::set<int> culprits = culprit_ranks(s);
  Table table;
  std::vector<const RankColumn*> columns;
  for (const RankColumn& c : kRankColumns) {
    const bool one_host = c.column.title == "Host" && s.run.nodes <= 1;
    const bool known =
        !c.known || std::any_of(ranks.begin(), ranks.end(), [&](const RankStat* r) { return c.known(*r); });
    if (one_host || !known) continue;
    columns.push_back(&c);
    table.columns.push_back(c.column);
  }
  for (const RankStat* r : ranks) {
    std::vector<std::string> cells;
    for (const RankColumn* c : columns) cells.push_back(c->cell(*r));
    table.add(std::move(cells), culprits.contains(r->rank) ? RowMark::kCulprit : RowMark::kNone);
  }
  block.elements.emplace_back(std::move(table));
  if (ranks.size() < s.ranks.size()) {
    block.elements.emplace_back(
        Lines{{formatted("{} of {} ranks: those that delay others most. All are in final_summary.json.", ranks.size(),
                         format_count(s.ranks.size()))},
              Tone::kSoft});
  }
  return block;
}

Block memory_block(const Snapshot& s) {
  Block block{"Step memory", "of the device; growth: from the first steps to the last ones", {}};
  Table table{{{.title = "", .right = false, .least_width = 20},
               {.title = "Median", .least_width = 9},
               {.title = "Worst", .least_width = 9},
               {.title = "Worst Rank", .least_width = 11},
               {.title = "Skew %", .least_width = 8}},
              {}};
  for (const EvidenceRow& row : memory_rows(s)) {
    table.add({value_label(row.name), format_bytes(row.median), format_bytes(row.worst), rank_cell(row.worst_rank),
               format_skew(row.skew_pct)});
  }
  if (!table.rows.empty()) block.elements.emplace_back(std::move(table));
  return block;
}

Block collectives_block(const Snapshot& s, const PageSize& size) {
  Block block{"Collectives", "per step; wait: for the last rank to arrive; transfer: after it", {}};
  Table table{{{.title = "Group", .right = false},
               {.title = "Op", .right = false},
               {.title = "Calls"},
               {.title = "Size"},
               {.title = "Transfer", .unit = "ms"},
               {.title = "Wait", .unit = "ms"},
               {.title = "Bus rate", .priority = 1}},
              {}};
  for (size_t i = 0; i < std::min(s.collectives.size(), size.collectives); ++i) {
    const CollectiveStat& c = s.collectives[i];
    table.add({c.group, c.op, format_value("calls", c.per_step), format_bytes(c.bytes_per_step),
               format_ms_bare(c.transfer_ms), format_ms_bare(c.wait_ms), format_value("bus_gb_per_s", c.bus_gb_per_s)});
  }
  if (table.rows.empty()) return block;
  block.elements.emplace_back(std::move(table));
  if (size.collectives < s.collectives.size())
    block.elements.emplace_back(Lines{{formatted("{} of {} rows. All are in final_summary.json.", size.collectives,
                                                 format_count(s.collectives.size()))},
                                      Tone::kSoft});
  return block;
}

}  // namespace stepscope
