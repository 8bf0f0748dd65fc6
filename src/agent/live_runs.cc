#include "agent/live_runs.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "agent/shm_folder.h"
#include "base/file.h"
#include "base/subprocess.h"

namespace stepscope {
namespace {

constexpr const char* kFile = "run.json";
constexpr size_t kMaxBytes = 64 * 1024, kMaxEnvironment = 4u << 20, kMaxFolders = 4096;

bool ours_alone(const std::string& folder) {
  struct stat info;
  return ::lstat(folder.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == ::getuid() &&
         (info.st_mode & 077) == 0;
}

std::string text_of(const nlohmann::json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

template <class T>
T number_of(const nlohmann::json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_number_integer() ? found->get<T>() : T{};
}

}  // namespace

void announce_run(const AgentConfig& config) {
  if (config.shm_dir.empty()) return;
  const nlohmann::json json = {{"name", config.run_name},
                               {"run_dir", config.run_dir},
                               {"nonce", config.nonce},
                               {"started_at", config.started_at},
                               {"started_ns", config.started_ns},
                               {"launcher_pid", config.launcher_pid},
                               {"agent_pid", ::getpid()},
                               {"agent_start_ticks", static_cast<uint64_t>(proc_stat(::getpid()).start_ticks)}};
  (void)write_file_atomic(path_join(config.shm_dir, kFile),
                          json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

bool is_live(const LiveRun& run) {
  const ProcStat agent = proc_stat(run.agent_pid);
  return agent.state != 0 && agent.state != 'Z' && agent.start_ticks == run.agent_start_ticks;
}

std::vector<LiveRun> live_runs(const std::string& root) {
  std::vector<LiveRun> runs;
  auto names = list_dir(root, kMaxFolders);
  if (!names) return runs;
  const std::string prefix = ShmFolder::path_of("", root);
  for (const std::string& name : *names) {
    const std::string folder = path_join(root, name);
    if (!folder.starts_with(prefix) || !ours_alone(folder)) continue;
    auto text = read_file(path_join(folder, kFile), kMaxBytes);
    if (!text) continue;
    const auto json = nlohmann::json::parse(*text, nullptr, false);
    if (!json.is_object()) continue;
    LiveRun run{.name = text_of(json, "name"),
                .run_dir = text_of(json, "run_dir"),
                .shm_dir = folder,
                .nonce = text_of(json, "nonce"),
                .started_at = text_of(json, "started_at"),
                .started_ns = number_of<uint64_t>(json, "started_ns"),
                .launcher_pid = number_of<pid_t>(json, "launcher_pid"),
                .agent_pid = number_of<pid_t>(json, "agent_pid"),
                .agent_start_ticks = number_of<uint64_t>(json, "agent_start_ticks")};
    if (is_live(run)) runs.push_back(std::move(run));
  }
  std::ranges::stable_sort(runs, std::greater(), &LiveRun::started_ns);
  return runs;
}

bool has_process(const LiveRun& run, pid_t pid) {
  if (pid <= 0) return false;
  if (pid == run.launcher_pid || pid == run.agent_pid) return true;
  if (auto text = read_file("/proc/" + std::to_string(pid) + "/environ", kMaxEnvironment);
      text && !run.nonce.empty() && text->find("STEPSCOPE_NONCE=" + run.nonce) != std::string::npos)
    return true;
  auto names = list_dir(run.shm_dir, kMaxFolders);  // attached from within: the environment does not tell
  const std::string ring = std::to_string(pid) + "-";
  return names && std::ranges::any_of(*names, [&](const std::string& name) {
           return name.starts_with(ring) && name.ends_with(".ring");
         });
}

}  // namespace stepscope
