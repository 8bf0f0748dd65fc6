#include <algorithm>

#include "base/text_format.h"
#include "report/evidence_table.h"
#include "report/page_blocks.h"
#include "report/rank_rows.h"
#include "report/rank_table.h"

namespace stepscope {
namespace {

std::string rank_cell(std::optional<int> rank) { return rank ? formatted("{}", *rank) : std::string(kNotMeasured); }

std::string step_row_label(const std::string& name) {
  return name == "step" ? "step (wall)" : name == "stall" ? "waiting + transfer" : category_label(name);
}

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
  block.elements.emplace_back(rank_table(s, ranks, rank_columns(s, ranks)));
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
