// manifest.json of a run's folder: what the run is, before it has a verdict and after, with how each rank's process
// ended. Written by the agent (agent/run_report.h). Reads one small file; nothing of it is trusted: a value of another
// type counts as not there.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace stepscope {

struct ProcessEnd {
  uint64_t end_ns = 0;             // CLOCK_MONOTONIC
  std::optional<int> wait_status;  // as wait() tells it
};

struct RunManifest {
  std::string name, started_at;  // ISO 8601, UTC
  std::string status;            // "running" until it has ended
  std::string nonce, shm_dir, stepscope;
  std::vector<std::string> command;
  std::optional<int> exit_code;
  int64_t interrupted_ns = 0;       // CLOCK_MONOTONIC; 0 = not
  std::map<int, ProcessEnd> ended;  // by pid, of ranks
};

// nullopt: the folder has none, or what it has is no JSON object.
std::optional<RunManifest> read_manifest(const std::string& folder);

// An agent of this machine is at work on the run: its shared memory is removed with its last act.
bool agent_is_at_work(const RunManifest& manifest);

}  // namespace stepscope
