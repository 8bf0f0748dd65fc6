// What shows a run while it goes on. The agent hands over immutable snapshots and knows nothing of who draws them. Both
// functions are called on the agent's thread, must return at once and must not throw.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "agent/agent_config.h"
#include "align/host_facts.h"
#include "diagnose/snapshot.h"

namespace stepscope {

class LiveView {
 public:
  virtual ~LiveView() = default;
  // A snapshot would be shown now; making one costs the agent a few milliseconds.
  virtual bool wants_snapshot(uint64_t now_ns) = 0;
  // run.status is "running", or how the run ended: then it is the last one.
  // `host`: what was sampled so far.
  virtual void show(std::shared_ptr<const Snapshot> snapshot, std::shared_ptr<const HostFacts> host,
                    uint64_t now_ns) = 0;
};

// Null where there is nothing to show on. `notice`: a line for the user.
using MakeLiveView =
    std::function<std::unique_ptr<LiveView>(const AgentConfig&, const std::function<void(std::string)>& notice)>;

}  // namespace stepscope
