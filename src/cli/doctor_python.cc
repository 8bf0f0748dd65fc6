#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/subprocess.h"
#include "cli/doctor_check.h"
#include "cli/launch_plan.h"

namespace stepscope {
namespace {

constexpr uint64_t kPatienceNs = 60'000'000'000;
constexpr size_t kMaxOutput = 256 * 1024;
constexpr const char* kBootstrap = "import runpy, sys; runpy.run_path(sys.argv[1], run_name='__main__')";

struct Captured {
  std::string output;
  int error = 0;  // of the start
  int wait_status = 0;
  bool late = false;
};

// Runs a command, stdout captured, stderr dropped.
Captured capture(const std::vector<std::string>& argv, const std::vector<std::string>& environment) {
  Captured result;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return result.error = errno, result;
  Fd read_end(ends[0]), write_end(ends[1]);
  std::vector<char*> words, variables;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  for (const std::string& variable : environment) variables.push_back(const_cast<char*>(variable.c_str()));
  words.push_back(nullptr);
  variables.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, write_end.get(), 1);
  posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
  pid_t pid = -1;
  result.error = ::posix_spawnp(&pid, words[0], &files, nullptr, words.data(), variables.data());
  posix_spawn_file_actions_destroy(&files);
  write_end.reset();
  if (result.error) return result;
  const uint64_t deadline_ns = monotonic_ns() + kPatienceNs;
  char chunk[4096];
  for (;;) {
    const uint64_t now_ns = monotonic_ns();
    pollfd wait = {read_end.get(), POLLIN, 0};
    const int left_ms = now_ns < deadline_ns ? static_cast<int>((deadline_ns - now_ns) / 1'000'000) : 0;
    if (::poll(&wait, 1, left_ms) <= 0 && (result.late = monotonic_ns() >= deadline_ns)) break;
    const ssize_t n = ::read(read_end.get(), chunk, sizeof chunk);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0 || result.output.size() > kMaxOutput) break;
    result.output.append(chunk, static_cast<size_t>(n));
  }
  if (result.late) ::kill(pid, SIGKILL);
  ::waitpid(pid, &result.wait_status, 0);
  return result;
}

CheckState state_of(const std::string& word) {
  return word == "ok" ? CheckState::kOk : word == "degraded" ? CheckState::kDegraded : CheckState::kMissing;
}

void read_lines(const std::string& output, std::vector<Check>& checks) {
  for (size_t at = 0; at < output.size();) {
    const size_t end = std::min(output.find('\n', at), output.size());
    const auto line = nlohmann::json::parse(output.substr(at, end - at), nullptr, false);
    at = end + 1;
    if (!line.is_object() || !line.value("name", nlohmann::json()).is_string()) continue;  // somebody else's words
    const auto text = [&](const char* key) {
      return line.contains(key) && line[key].is_string() ? line[key].get<std::string>() : "";
    };
    checks.push_back({text("name"), state_of(text("state")), text("text"), line.value("essential", false)});
  }
}

}  // namespace

std::vector<Check> check_python(const std::string& python, const std::string& inject_folder) {
  const std::string probe = path_join(inject_folder, "../_doctor.py");
  if (inject_folder.empty() || !is_file(probe)) {
    return {
        {"python part", CheckState::kMissing, "the Python part of stepscope was not found beside its binary", true}};
  }
  const auto environment = training_environment(current_environment(), {"", "", "", inject_folder});
  const Captured answer = capture({python, "-c", kBootstrap, probe}, environment);
  std::vector<Check> checks;
  if (answer.error) return {{"python", CheckState::kMissing, python + ": " + errno_text(answer.error), true}};
  read_lines(answer.output, checks);
  if (answer.late) {
    checks.push_back({"python", CheckState::kMissing, python + " did not answer within a minute", checks.empty()});
  } else if (shell_code(answer.wait_status) != 0) {
    const std::string code = std::to_string(shell_code(answer.wait_status));
    checks.push_back({"python", CheckState::kMissing, python + " ended with exit code " + code + " while it was asked",
                      checks.empty()});
  } else if (checks.empty()) {
    checks.push_back({"python", CheckState::kMissing, python + " is no Python: it ran nothing", true});
  }
  return checks;
}

}  // namespace stepscope
