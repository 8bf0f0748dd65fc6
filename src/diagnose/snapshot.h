// The snapshot: everything a view may show, one plain value. Summary JSON, text, HTML, terminal and browser are pure
// functions of it. Produced by the engine (diagnose/engine.h) plus facts that the agent adds (run, system, process).
// Not measured is std::nullopt and becomes null in JSON, never 0.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "align/category.h"
#include "align/rank_state.h"
#include "diagnose/finding.h"

namespace stepscope {

// A threshold of the rules that was judged by with another value than its default.
struct ChangedThreshold {
  std::string name;
  double value = 0, standard = 0;
};

struct RunInfo {
  std::string name, started_at;  // started_at: ISO 8601 UTC
  double duration_s = 0;
  int world_size = 0, nodes = 0, attempts = 1;  // nodes: of those seen
  int ranks_seen = 0;                           // of world_size
  std::string status;                           // completed, crashed, interrupted, hung, running
  std::optional<int> exit_code;
  std::vector<std::string> command;
  std::map<std::string, std::string> versions;  // stepscope, torch, python, …
  std::vector<ChangedThreshold> thresholds;     // what the user set to other values than the default, by name
};

struct Percentiles {
  std::optional<double> p50, p90, p99, mean;
};

// Own time of one phase over ranks: median over ranks of the per-rank medians, worst of them, skew =
// (worst-median)/median.
struct PhaseStat {
  std::string phase;
  std::optional<double> median_ms, worst_ms, skew_pct, share;  // share of the job's wall time, 0..1
  std::optional<int> worst_rank;
};

struct RankStat {
  int rank = 0, local_rank = 0, node = 0, pid = 0;
  std::string hostname;
  Word<RankState> state;
  uint64_t steps = 0;
  std::optional<double> step_ms, own_ms, stall_ms, caused_wait_ms;  // medians per step; caused: mean per step
  std::map<std::string, std::optional<double>> phase_ms;            // medians of own time
  std::optional<double> cpu_share, rss_peak_bytes, uss_peak_bytes;
  std::optional<double> samples_per_s, tokens_per_s, flops_per_s, mfu;
  std::string last_phase;
  double process_wall_ms = 0;  // interpreter start to exit: what the rank's ledger adds up to
  double steps_wall_ms = 0;    // first step's begin to last step's end
  LedgerNs ledger{};           // sums to process_wall_ms
};

// One pass over the training data, where loaders or the program tell them.
struct EpochStat {
  int32_t epoch = 0;  // as the program numbers them, else from 0 on
  uint64_t first_step = 0, last_step = 0, steps = 0;
  double wall_ms = 0;                   // sum over its steps, what lies between them included
  LedgerNs ledger{};                    // mean over ranks
  std::optional<double> samples_per_s;  // of the job
};

struct CollectiveStat {
  std::string group, op;  // group: name or "ranks 0-3"
  std::vector<int> ranks;
  double per_step = 0, bytes_per_step = 0;
  std::optional<double> transfer_ms, wait_ms, bus_gb_per_s;
};

struct Section {
  std::string name;    // system, process, step_time, step_memory
  KindWord diagnosis;  // of its leading finding, BALANCED or NO_DATA included
  Severity severity = Severity::kInfo;
  std::string text;                                     // one line
  std::map<std::string, std::optional<double>> values;  // units last in names
};

struct DeviceMemoryRank {
  int rank = 0;
  std::optional<double> allocated_bytes, reserved_bytes, peak_bytes, capacity_bytes, head_bytes, tail_bytes;
};

struct ObserverStat {
  uint64_t records = 0, lost = 0, torn = 0;
  std::optional<double> overhead_us_per_step;
  double coverage = 0;                   // ranks × steps seen / expected
  std::vector<std::string> unavailable;  // "signal: reason", each once
  std::vector<std::string> notes;
};

// One row of the step series, for charts and for readers that align by themselves.
struct StepPoint {
  uint64_t step = 0;
  double wall_ms = 0;  // of the job: the longest rank
  uint32_t tags = 0;
  std::vector<float> rank_ms;  // in the order of Snapshot::ranks, NaN = not seen
};

// One of the checks that "healthy" is made of. Names: data_complete, no_costed_finding, other_time, ranks_keep_pace,
// steady_step_time.
struct HealthCheck {
  std::string name;
  bool passed = false;
  std::optional<double> value, limit;  // shares of wall time (data_complete: of ranks × steps)
  std::string text;                    // what decided: a kind of finding, a category
};

struct Snapshot {
  RunInfo run;
  std::vector<Finding> findings;    // ordered: primary first, then by severity and cost
  int primary = -1;                 // index into findings, -1 = none
  std::vector<HealthCheck> checks;  // empty: too few steps for a verdict
  std::vector<Section> sections;    // system, process, step_time, step_memory, in this order
  std::string job_clock = "cpu";    // of job_ledger and phases: "gpu" where the steps were timed on the devices
  LedgerNs job_ledger{};            // mean over ranks of steps_wall; startup and teardown left out
  uint64_t steps = 0, steps_analyzed = 0;
  Percentiles wall_ms;
  std::vector<PhaseStat> phases;
  std::vector<EpochStat> epochs;  // the first and the newest
  uint32_t epochs_count = 0;      // all of them
  std::vector<RankStat> ranks;    // those seen, ascending
  std::vector<CollectiveStat> collectives;
  std::vector<DeviceMemoryRank> memory;
  std::map<std::string, std::optional<double>> throughput;  // samples_per_s, tokens_per_s, flops_per_s of the job, only
                                                            // where all its ranks were seen; mfu (0..1), of those seen
  std::map<std::string, std::optional<double>> system, process;
  ObserverStat observer;
  std::vector<StepPoint> recent;  // newest steps, bounded
};

}  // namespace stepscope
