// Hidden: what stepscope.init() calls when no launcher is there. Starts the agent for the calling process, or finds the
// one that another rank of the same job on this node has started, and answers with one line of JSON on stdout: the
// environment that the hooks need.
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/file.h"
#include "base/random_hex.h"
#include "cli/agent_link.h"
#include "cli/python_env.h"
#include "cli/run_places.h"
#include "cli/settings_here.h"
#include "cli/verbs.h"

namespace stepscope {
namespace {

constexpr int kMaxGenerations = 16;  // restarts of one job under the same parent process
constexpr int kMaxStrange = 64;      // names that somebody else has taken
constexpr uint64_t kAnswerWaitNs = 3'000'000'000;
constexpr useconds_t kAnswerPollUs = 10'000;
constexpr const char* kAnswerFile = "attach.json";
// Set by the usual launchers in every rank process.
constexpr const char* kRankVariables[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"};

int parent_of(pid_t pid) {
  auto text = read_file("/proc/" + std::to_string(pid) + "/status", 4096);
  const size_t at = text ? text->find("\nPPid:") : std::string::npos;
  return at == std::string::npos ? 0 : std::atoi(text->c_str() + at + 6);
}

std::vector<std::string> command_of(pid_t pid) {
  std::vector<std::string> words;
  auto text = read_file("/proc/" + std::to_string(pid) + "/cmdline", 64 * 1024);
  for (size_t at = 0; text && at < text->size();) {
    const size_t end = std::min(text->find('\0', at), text->size());
    words.push_back(text->substr(at, end - at));
    at = end + 1;
  }
  return words;
}

// What the ranks of one job on this node have in common, "" for a process that is no rank of several.
std::string job_key(pid_t pid) {
  bool ranked = false;
  for (const char* name : kRankVariables) ranked = ranked || std::getenv(name);
  if (!ranked) return "";
  const int parent = parent_of(pid);
  std::string key = std::to_string(parent) + "/" + std::to_string(proc_stat(parent).start_ticks);
  for (const char* name : {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"}) {
    key += "/" + from_environment(name).value_or("");
  }
  return key;
}

std::string hashed_nonce(const std::string& text) {
  std::string result;
  for (uint64_t seed : {0xcbf29ce484222325ull, 0x9ae16a3b2f90404full}) {
    uint64_t h = seed;
    for (unsigned char c : text) h = (h ^ c) * 0x100000001b3ull;
    for (int shift = 60; shift >= 0; shift -= 4) result += "0123456789abcdef"[h >> shift & 15];
  }
  return result;
}

bool is_there(const std::string& path) {
  struct stat info;
  return ::lstat(path.c_str(), &info) == 0;
}

bool ours_alone(const std::string& folder) {
  struct stat info;
  return ::lstat(folder.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == ::getuid() &&
         (info.st_mode & 077) == 0;
}

// The answer that another rank's call has left, "" when its agent is gone or none comes.
std::string answer_of(const std::string& folder) {
  const uint64_t deadline_ns = monotonic_ns() + kAnswerWaitNs;
  for (;;) {
    if (auto text = read_file(path_join(folder, kAnswerFile), 16 * 1024)) {
      const auto json = nlohmann::json::parse(*text, nullptr, false);
      const bool complete = json.is_object() && json.contains("agent_pid") && json.contains("agent_start_ticks") &&
                            json["agent_pid"].is_number_integer() && json["agent_start_ticks"].is_number_unsigned();
      if (!complete) return "";
      const ProcStat agent = proc_stat(json["agent_pid"].get<pid_t>());
      const bool alive =
          agent.state != 0 && agent.state != 'Z' && agent.start_ticks == json["agent_start_ticks"].get<uint64_t>();
      return alive ? *text : "";
    }
    if (!is_dir(folder) || monotonic_ns() > deadline_ns) return "";
    ::usleep(kAnswerPollUs);
  }
}

Result<pid_t> start_agent(const AgentConfig& config, const std::string& own_binary, pid_t watched,
                          const SignalState& signals) {
  auto pair = ControlChannel::make_pair();
  if (!pair) return std::unexpected(pair.error());
  SpawnRequest request;
  request.argv = {own_binary, "agent"};
  request.environment = current_environment();
  request.signals = signals;
  request.daemon = true;
  request.keep_fd = pair->second.fd();
  const SpawnResult result = spawn(request);
  if (result.error) return fail("cannot start the agent: " + errno_text(result.error));
  // Both frames lie in the socket's buffer until the agent reads them; that this end closes is what it expects.
  pair->first.send(FrameType::kConfig, config.to_json());
  pair->first.send(FrameType::kChild, std::to_string(watched));
  return result.pid;
}

int answer(const std::string& json) { return write_all(STDOUT_FILENO, json + "\n", "stdout") ? 0 : 1; }

int start_new(pid_t pid, const Settings& settings, const std::string& nonce, ShmFolder shm,
              const SignalState& at_start) {
  RunPlaces places = make_places(settings, SS_VERSION, command_of(pid), nonce, std::move(shm));
  places.config.attached = true;
  const auto agent = start_agent(places.config, own_binary_path(), pid, at_start);
  if (!agent) {
    if (places.folder) ::rmdir(places.folder.path().c_str());
    places.shm.remove();
    return say(agent.error().message), 1;
  }
  const AgentConfig& config = places.config;
  const nlohmann::json json = {{"STEPSCOPE_SHM", config.shm_dir},
                               {"STEPSCOPE_RUN_DIR", config.run_dir.empty() ? config.shm_dir : config.run_dir},
                               {"STEPSCOPE_NONCE", config.nonce},
                               {"agent_pid", *agent},
                               {"agent_start_ticks", static_cast<uint64_t>(proc_stat(*agent).start_ticks)}};
  const std::string text = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  (void)write_file_atomic(path_join(config.shm_dir, kAnswerFile), text);
  return answer(text);
}

// An agent for this process only, under a name that nobody can have taken.
int start_alone(pid_t pid, const Settings& settings, const SignalState& at_start) {
  const std::string nonce = random_hex(16);
  auto shm = ShmFolder::create(nonce);
  if (!shm) return say("no shared memory: " + shm.error().message), 1;
  return start_new(pid, settings, nonce, std::move(*shm), at_start);
}

}  // namespace

int verb_attach(pid_t pid, const SignalState& at_start) {
  if (proc_stat(pid).state == 0) return say("attach: no process " + std::to_string(pid)), kExitUsage;
  auto settings = settings_here({});
  if (!settings) return say(settings.error().message), kExitUsage;
  if (settings->disable) return say("switched off by the settings"), 1;
  const std::string key = job_key(pid);
  if (key.empty()) return start_alone(pid, *settings, at_start);
  for (int generation = 0, strange = 0; generation < kMaxGenerations && strange < kMaxStrange;) {
    const std::string nonce = hashed_nonce(key + "/" + std::to_string(generation) + "/" + std::to_string(strange));
    auto shm = ShmFolder::create(nonce);  // mkdir decides which of the ranks starts the agent
    if (shm) return start_new(pid, *settings, nonce, std::move(*shm), at_start);
    const std::string folder = ShmFolder::path_of(nonce);
    if (!is_there(folder)) break;  // it failed for a reason of its own, which start_alone() says
    if (!ours_alone(folder)) {
      ++strange;  // the name can be guessed, and anybody may take it: all ranks go on to the same next one
      continue;
    }
    if (const std::string text = answer_of(folder); !text.empty()) return answer(text);
    ++generation;
  }
  return start_alone(pid, *settings, at_start);
}

}  // namespace stepscope
