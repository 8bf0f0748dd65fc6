#include "cli/run_places.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/random_hex.h"
#include "cli/agent_link.h"

namespace stepscope {

std::string current_folder() {
  char buffer[4096];
  return ::getcwd(buffer, sizeof buffer) ? buffer : "";
}

RunPlaces make_places(const Settings& settings, const std::string& version, const std::vector<std::string>& command,
                      const std::string& nonce, Result<ShmFolder> shm) {
  RunPlaces places;
  AgentConfig& config = places.config;
  config.version = version;
  config.started_at = iso_time_now();
  config.started_ns = monotonic_ns();
  config.command = command;
  config.working_dir = current_folder();
  config.launcher_pid = ::getpid();
  config.interval_s = settings.interval_s;
  if (settings.html_report) config.formats = {"html"};
  config.keep_rings = settings.keep_rings;
  config.thresholds = settings.thresholds;
  config.silence = settings.silence;
  config.stacks = settings.stacks;
  config.on_hang = settings.on_hang;
  config.hang_timeout_s = settings.hang_timeout_s;
  config.flops_per_step = settings.flops_per_step;
  config.peak_flops = settings.peak_flops;
  config.nonce = nonce;
  config.aggregator = settings.aggregator;
  config.node_secret = settings.node_secret;
  if (settings.mode == "dashboard") {
    config.dashboard_token = settings.token.empty() ? random_hex(16) : settings.token;
    config.dashboard_port = settings.port;
  }
  const std::string name = settings.run_name.empty() ? made_up_run_name() : settings.run_name;
  auto folder = RunFolder::create(settings.logs_dir, name);
  if (folder) {
    places.folder = *folder;
    config.run_dir = folder->path();
    config.run_name = folder->name();
  } else {
    config.run_name = name;
    config.notes.push_back("no run folder: " + folder.error().message);
    say("no run folder, the summary is only printed: " + folder.error().message);
  }
  if (shm) {
    places.shm = std::move(*shm);
    config.shm_dir = places.shm.path();
  } else {
    config.notes.push_back("nothing is recorded: " + shm.error().message);
    say("nothing is recorded: " + shm.error().message);
  }
  return places;
}

}  // namespace stepscope
