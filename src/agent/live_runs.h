// The runs that go on on this machine, found from outside. Each agent leaves run.json in its run's shared folder; a run
// is live while that agent is. Only the user's own folders are looked at, and what they hold is not trusted: bounded
// reads, and who cannot be believed is left out. Cost: one directory listing, one small file per run.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "agent/agent_config.h"

namespace stepscope {

struct LiveRun {
  std::string name, run_dir, shm_dir, nonce, started_at;  // run_dir: "" = it has none
  uint64_t started_ns = 0;                                // CLOCK_MONOTONIC
  pid_t launcher_pid = 0, agent_pid = 0;
  uint64_t agent_start_ticks = 0;
};

// By the agent, once: makes its run findable. Failure: the run is not found, nothing else.
void announce_run(const AgentConfig& config);

// Newest first. `root` is another place than /dev/shm in tests.
std::vector<LiveRun> live_runs(const std::string& root = "/dev/shm");

bool is_live(const LiveRun& run);

// Whether a process is of this run: its launcher, its agent, or whoever was started by it or records in it.
bool has_process(const LiveRun& run, pid_t pid);

}  // namespace stepscope
