#include "agent/agent_config.h"

#include <nlohmann/json.hpp>

namespace stepscope {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(AgentConfig, version, run_name, run_dir, shm_dir, nonce, command, working_dir,
                                   started_at, started_ns, launcher_pid, restarts, attached, interval_s, formats,
                                   keep_rings, thresholds, silence, stacks, on_hang, hang_timeout_s, flops_per_step,
                                   peak_flops, dashboard_token, dashboard_port, aggregator, node_secret, notes)

std::string AgentConfig::to_json() const {
  // A command line is bytes, not text: what is no UTF-8 is replaced, never thrown on.
  return nlohmann::json(*this).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Result<AgentConfig> AgentConfig::from_json(const std::string& text) {
  try {
    return nlohmann::json::parse(text).get<AgentConfig>();
  } catch (const nlohmann::json::exception& error) {
    return fail(std::string("agent configuration: ") + error.what());
  }
}

}  // namespace stepscope
