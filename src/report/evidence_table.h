// The tables people read: per phase (and for memory) Median, Worst, Worst Rank, Skew %, Share over ranks. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "diagnose/snapshot.h"

namespace stepscope {

// One row. Not measured is nullopt.
struct EvidenceRow {
  std::string name;                     // phase, "step", "stall"; for memory a name with unit
  std::optional<double> median, worst;  // ms, or bytes for memory
  std::optional<int> worst_rank;
  std::optional<double> skew_pct, share;
};

// Median and worst over ranks of a per-rank value; skew = (worst - median) / median. No value on no rank: all null.
EvidenceRow row_over_ranks(std::string name, const std::vector<std::pair<int, std::optional<double>>>& by_rank);

// The step itself (row "step", wall time), own time of each phase in ledger order (without those that are nil), and
// "stall": time a rank is blocked, by waiting and by transfer.
std::vector<EvidenceRow> step_time_rows(const Snapshot& snapshot);

// peak_bytes, reserved_bytes and growth_bytes (tail minus head) over ranks; empty when no rank measured memory.
std::vector<EvidenceRow> memory_rows(const Snapshot& snapshot);

// Phases in ledger order, unknown names after them by name.
std::vector<PhaseStat> ordered_phases(const Snapshot& snapshot);

// System, process, step_time, step_memory in this order, whatever the snapshot holds (NO_DATA where it holds nothing);
// sections of other names after them.
std::vector<Section> ordered_sections(const Snapshot& snapshot);

}  // namespace stepscope
