// A snapshot is put together here and nowhere else, live and from a run file alike. What follows from steps and lives
// is the engine's; everything else is a RunContext: who has it (pipeline, sampler, agent, manifest, run file) fills the
// part it owns, and assemble() lays it over the engine's snapshot. Pure.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "diagnose/engine.h"

namespace stepscope {

// What was sampled of a rank's process from outside.
struct ProcessUse {
  int rank = -1;
  std::optional<double> cpu_share, rss_peak_bytes, uss_peak_bytes;
};

// A rank's times over all its steps, where the engine was fed a sample of them.
struct RankTotals {
  int rank = -1;
  uint64_t steps = 0;
  std::array<double, kCategoryCount> ms{};  // of its steps, main axis
  LedgerNs ledger{};                        // as RankStat's: of its process, start-up and teardown included
  double steps_wall_ms = 0;
};

struct RunContext {
  RunInfo run;            // thresholds and ranks_seen are the engine's; world_size is that at least
  ObserverStat observer;  // coverage is the engine's; its notes come first
  std::map<std::string, std::optional<double>> system, process;
  std::vector<ProcessUse> processes;
  std::vector<RankTotals> totals;  // empty: the engine has seen every step

  // Each text once.
  void note(const std::string& text);
  void unavailable(const std::string& text);
};

Snapshot assemble(const Engine& engine, const RunContext& context);

}  // namespace stepscope
