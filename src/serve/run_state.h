// What the server knows of one run at one moment, and of the runs of a logs folder in a line each. Plain values; a
// snapshot that is handed out is never changed again, so that any thread may read it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "align/host_facts.h"
#include "diagnose/snapshot.h"

namespace stepscope {

struct RunState {
  std::string name;       // of its folder, which names it in addresses
  uint64_t version = 0;   // another one whenever something of the run has changed
  bool going_on = false;  // more is to come
  std::string note;       // why it is not the summary that was written; "" = it is
  std::string run_file;   // path of run.db, "" = none
  std::shared_ptr<const Snapshot> snapshot;
  std::shared_ptr<const HostFacts> host;  // of a live run; null = the run file has the samples
};

// A line of the history.
struct RunDigest {
  std::string name, status, started_at, command;
  bool going_on = false;
  double duration_s = 0;
  int world_size = 0, nodes = 0;
  uint64_t steps = 0;
  std::optional<double> step_p50_ms, samples_per_s, peak_bytes;
  KindWord verdict;  // none: no verdict
  Severity severity = Severity::kInfo;
  std::string title;
  std::optional<double> cost_share;
  std::vector<float> walls_ms;  // of the newest steps, at most kDigestSteps
  std::string trouble;          // why there is no more; "" = nothing is missing
};
inline constexpr size_t kDigestSteps = 48;

RunDigest digest_of(const Snapshot& snapshot);

struct LoadedSnapshot {
  Snapshot snapshot;
  std::string note;
};
// Reads a run from its folder or file; may take seconds.
using LoadSnapshot = std::function<Result<LoadedSnapshot>(const std::string& path)>;

}  // namespace stepscope
