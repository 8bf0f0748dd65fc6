// The agent: one process per node and run. Finds the rings, follows the rank processes, feeds the pipeline, writes the
// run's folder and says the summary to the launcher. Never touches the training: it only reads (and unlinks rings of
// processes that turned out to be no ranks).
//
// It ends when the launcher says that the command has ended, or, should the launcher itself be gone, when the command
// and all ranks are gone. Then: last records, verdict, final_summary.*, rings of a crashed or hung job into blackbox/,
// shared-memory folder removed. One thread, one epoll set. Failure: whatever cannot be written is stated once; only a
// missing configuration ends it with an error.
#pragma once

#include "agent/control_channel.h"
#include "agent/live_view.h"
#include "agent/node_link.h"

namespace stepscope {

// Runs until the end of the run. Returns the exit code of the agent process. `make_view`: what shows the run while it
// goes on; null = nothing does. `open_door`: how an agent aggregates a job on several nodes; null = it cannot.
int run_agent(ControlChannel channel, const MakeLiveView& make_view = nullptr, OpenNodeDoor open_door = nullptr);

}  // namespace stepscope
