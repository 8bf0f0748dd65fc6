// Everything of a run that exists outside of processes: its folder below the logs folder, its shared memory, and what
// the agent has to know of both. What cannot be had is said on stderr in one line and noted for the summary.
#pragma once

#include <string>
#include <vector>

#include "agent/agent_config.h"
#include "agent/run_folder.h"
#include "agent/shm_folder.h"
#include "base/result.h"
#include "cli/settings.h"

namespace stepscope {

struct RunPlaces {
  RunFolder folder;
  ShmFolder shm;
  AgentConfig config;
};

// `shm` is made (or failed) already: its name is the nonce of the run.
RunPlaces make_places(const Settings& settings, const std::string& version, const std::vector<std::string>& command,
                      const std::string& nonce, Result<ShmFolder> shm);

std::string current_folder();

}  // namespace stepscope
