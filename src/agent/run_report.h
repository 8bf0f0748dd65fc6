// What the agent says of a run at its end: how it ended, its last snapshot, its manifest.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "agent/agent_config.h"
#include "agent/host_watch.h"
#include "agent/job_nodes.h"
#include "agent/pipeline.h"
#include "diagnose/snapshot.h"

namespace stepscope {

// How the run ended, as far as the agent learned it.
struct RunEnd {
  std::optional<int> wait_status;  // of the launch command; unknown when the launcher was killed
  int interrupted_by = 0;          // signal that the user or a scheduler sent to the job, 0 = none
  uint64_t end_ns = 0;             // CLOCK_MONOTONIC
};

// completed, crashed, interrupted or hung.
std::string run_status(const Snapshot& snapshot, const Pipeline& pipeline, const RunEnd& end);

// The whole snapshot: RunInfo complete, what was sampled and the reasons of recorders that stayed off included.
Snapshot final_snapshot(Pipeline& pipeline, const HostWatch& host, const JobNodes& nodes, const AgentConfig& config,
                        const RunEnd& end);

// manifest.json: what the run is, before it has a verdict and after. With identity and death of each rank process.
std::string manifest_json(const AgentConfig& config, const std::string& status, const RunEnd& end,
                          const Pipeline& pipeline);

}  // namespace stepscope
