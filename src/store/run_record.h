// What the run file holds besides steps: plain values, the same for writer and reader.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "align/step_table.h"

namespace stepscope {

struct RunEvent {
  int64_t time_ns = 0;     // CLOCK_MONOTONIC of the agent's node
  int32_t attempt = -1;    // -1: the attempt that is being written
  int32_t rank = -1;       // -1 = of the job
  int64_t step = -1;       // -1 = outside of steps
  std::string kind, text;  // kind: one word, e.g. attempt, rank_death, checkpoint; text: one line
};

// Names one series of samples: scope is host, cgroup, rank, worker or device; idx its number (-1 for the host).
struct SeriesKey {
  std::string scope;
  int32_t idx = -1;
  std::string name;  // unit last, e.g. rss_bytes
  auto operator<=>(const SeriesKey&) const = default;
};

struct SeriesPoint {
  double at_s = 0;   // since the run's start
  double value = 0;  // 16 significant bits are kept
  double peak = 0;   // largest value that a thinned point stands for; == value where nothing was thinned
};

struct StoredRun {
  std::string name, started_at, status, run_id;
  std::vector<std::string> command;
  std::vector<std::pair<std::string, std::string>> versions;
  double duration_s = 0;
  int world_size = 0, nodes = 0, attempts = 1;
  int exit_code = -1;    // -1 = not known
  int64_t start_ns = 0;  // CLOCK_MONOTONIC; the zero of every at_s
};

struct StoredGroup {
  int32_t attempt = 0;
  uint64_t id = 0;
  std::string description;
  std::vector<int> ranks;
};

struct StoredFinding {
  int32_t attempt = 0;
  std::string kind, severity, scope, section, phase, cause, pattern, title, action;
  std::vector<int> ranks, victims;
  int64_t opened_step = -1, closed_step = -1;  // closed: the step at which the rules no longer said it; -1 = open
  int64_t first_step = -1, last_step = -1, detected_step = -1;
  double cost_share = 0;
  std::optional<double> cost_seconds, saves_share, confidence, coverage;
  std::string json;  // the object of final_summary.json, on one line; "" when the writer had none
};

// A row and how many closed steps of the run stand behind it.
struct StoredRow {
  StepRow row;
  int32_t attempt = 0;
  uint32_t stride = 1;
};

// What one column takes of the file, over all segments.
struct StoredSize {
  std::string metric;
  uint64_t blocks = 0, bytes = 0;
};

// Exact sums over every step that was written, thinned ones included.
struct StoredSums {
  struct Rank {
    std::array<double, kCategoryCount> ms{},
        host_ms{};  // main axis; the host's beside it, of the steps that have both (none: the same)
    double wall_ms = 0, host_wall_ms = 0, caused_ms = 0, samples = 0, tokens = 0, bytes = 0;
    uint64_t steps = 0, gpu_steps = 0;
  };
  std::vector<Rank> ranks;
  uint64_t steps = 0;  // closed rows
};

}  // namespace stepscope
