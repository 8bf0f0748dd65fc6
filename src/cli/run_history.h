// The runs below a logs folder: what each was and how it ended, from the small files in its folder. What is no run of
// ours (no manifest.json, a link, not a folder) is not listed and never removed. Cost: one summary per run, about 4 ms
// for 64 ranks. Failure: what cannot be read of a run is left open.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/live_runs.h"
#include "base/result.h"
#include "diagnose/finding.h"

namespace stepscope {

struct KnownRun {
  std::string folder, name, started_at;
  std::string status;     // of the summary; "running" where it is live; "cut off": it ended without a summary
  int64_t started_s = 0;  // seconds since 1970; of the folder where the manifest does not tell
  double duration_s = 0;
  int ranks = 0;
  uint64_t steps = 0;
  std::string finding;  // display name of the primary one, "" = none
  Severity severity = Severity::kInfo;
  double cost_share = 0;
  uint64_t bytes = 0;
  bool live = false;  // here, or perhaps on another machine: it says "running" and was written to within the hour
};

// Newest first. Failure: no such folder.
Result<std::vector<KnownRun>> runs_in(const std::string& logs_dir, const std::vector<LiveRun>& live);

// Which of `runs` (newest first) go: not live, beyond the newest `keep` and older than `days` at `now_s`. A rule that
// is not given lets all through; without any rule none goes. Pure.
struct PruneRules {
  std::optional<size_t> keep;
  std::optional<double> older_days;
};
std::vector<const KnownRun*> to_prune(const std::vector<KnownRun>& runs, const PruneRules& rules, int64_t now_s);

// Removes a run's folder with all that is in it; links in it are removed, not followed.
Status remove_run(const KnownRun& run);

}  // namespace stepscope
