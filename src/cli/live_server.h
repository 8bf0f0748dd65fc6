// The browser view of a live run (`stepscope run --mode dashboard`): the agent's snapshots on a server of its own
// threads. Snapshots are made while a browser looks, else every few seconds. Failure: one line for the user; the run
// goes on without the view.
#pragma once

#include <memory>
#include <string>

#include "agent/live_view.h"

namespace stepscope {

std::unique_ptr<LiveView> make_live_server(const AgentConfig& config, const std::function<void(std::string)>& notice);

}  // namespace stepscope
