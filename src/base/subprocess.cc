#include "base/subprocess.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/fd.h"
#include "base/file.h"

extern char** environ;

namespace stepscope {
namespace {

// linux/pidfd.h of 6.15; Debian 12's headers do not have it. Layout of PIDFD_INFO_SIZE_VER0.
struct PidfdInfo {
  uint64_t mask, cgroup_id;
  uint32_t pid, tgid, ppid, ruid, rgid, euid, egid, suid, sgid, fsuid, fsgid;
  int32_t exit_code;
};
static_assert(sizeof(PidfdInfo) == 64);
constexpr uint64_t kPidfdInfoExit = 1 << 3;
constexpr unsigned long kPidfdGetInfo = _IOWR(0xFF, 11, PidfdInfo);

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (const std::string& s : strings) result.push_back(const_cast<char*>(s.c_str()));
  result.push_back(nullptr);
  return result;
}

// Runs in the child. `report` is close-on-exec: the parent reads end of file when the exec worked.
void become_daemon(int keep_fd, int& report) {
  ::setsid();
  const int null = ::open("/dev/null", O_RDWR);
  for (int fd = 0; fd < 3; ++fd) {
    if (null >= 0) ::dup2(null, fd);
  }
  // Both live on as 3 and 4, wherever they were before; everything else of the user's is let go.
  const int high_keep = keep_fd >= 0 ? ::fcntl(keep_fd, F_DUPFD, 10) : -1;
  const int high_report = ::fcntl(report, F_DUPFD, 10);
  if (high_keep >= 0)
    ::dup2(high_keep, 3);
  else
    ::close(3);
  ::dup3(high_report, 4, O_CLOEXEC);
  report = 4;
  if (::syscall(SYS_close_range, 5u, ~0u, 0u) != 0) {
    for (int fd = 5; fd < 4096; ++fd) ::close(fd);
  }
}

}  // namespace

SignalState SignalState::current() {
  SignalState state;
  ::sigprocmask(SIG_SETMASK, nullptr, &state.mask);
  for (int signal = 1; signal <= 64; ++signal) {
    struct sigaction action;
    if (::sigaction(signal, nullptr, &action) == 0) state.ignored[signal] = action.sa_handler == SIG_IGN;
  }
  return state;
}

void SignalState::restore() const {
  for (int signal = 1; signal <= 64; ++signal) {
    struct sigaction action = {};
    action.sa_handler = ignored[signal] ? SIG_IGN : SIG_DFL;
    ::sigaction(signal, &action, nullptr);
  }
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
}

SpawnResult spawn(const SpawnRequest& request) {
  std::vector<char*> argv = pointers(request.argv), environment = pointers(request.environment);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {-1, errno};
  Fd read_end(ends[0]), write_end(ends[1]);
  const pid_t pid = ::fork();
  if (pid < 0) return {-1, errno};
  if (pid == 0) {
    int report = write_end.get();
    for (int fd = 0; fd < 3; ++fd)
      if (request.stdio[fd] >= 0) ::dup2(request.stdio[fd], fd);
    if (request.daemon) become_daemon(request.keep_fd, report);
    request.signals.restore();
    for (int signal = 1; request.early_signals && signal <= 64; ++signal) {
      if (request.early_signals[signal]) ::kill(::getpid(), signal);
    }
    ::execvpe(argv[0], argv.data(), environment.data());
    const int error = errno;
    [[maybe_unused]] const ssize_t n = ::write(report, &error, sizeof error);
    ::_exit(127);
  }
  write_end.reset();
  int error = 0;
  ssize_t n;
  do n = ::read(read_end.get(), &error, sizeof error);
  while (n < 0 && errno == EINTR);
  if (n == static_cast<ssize_t>(sizeof error)) {
    ::waitpid(pid, nullptr, 0);
    return {-1, error};
  }
  return {pid, 0};
}

int shell_code(int wait_status) {
  if (WIFSIGNALED(wait_status)) return 128 + WTERMSIG(wait_status);
  return WEXITSTATUS(wait_status);
}

ProcStat proc_stat(pid_t pid) {
  auto text = read_file("/proc/" + std::to_string(pid) + "/stat", 4096);
  if (!text) return {};
  // The name in brackets may hold anything, brackets too: count fields from the last one.
  const size_t close = text->rfind(')');
  if (close == std::string::npos || close + 2 >= text->size()) return {};
  ProcStat result;
  result.state = (*text)[close + 2];
  int field = 3;
  const char* at = text->c_str() + close + 2;
  for (; *at; ++at) {
    if (*at != ' ') continue;
    ++field;
    if (field == 22) result.start_ticks = std::strtoull(at + 1, nullptr, 10);
    if (field == 52) result.exit_status = static_cast<int>(std::strtol(at + 1, nullptr, 10));
  }
  return result;
}

int open_pidfd(pid_t pid) { return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0u)); }

int pidfd_exit_status(int pidfd) {
  PidfdInfo info = {};
  info.mask = kPidfdInfoExit;
  if (::ioctl(pidfd, kPidfdGetInfo, &info) != 0 || !(info.mask & kPidfdInfoExit)) return -1;
  return info.exit_code;
}

std::vector<std::string> current_environment() {
  std::vector<std::string> result;
  for (char** at = environ; at && *at; ++at) result.emplace_back(*at);
  return result;
}

void set_variable(std::vector<std::string>& environment, const std::string& name, const std::string& value) {
  unset_variable(environment, name);
  environment.push_back(name + "=" + value);
}

void unset_variable(std::vector<std::string>& environment, const std::string& name) {
  const std::string prefix = name + "=";
  std::erase_if(environment, [&](const std::string& entry) { return entry.starts_with(prefix); });
}

}  // namespace stepscope
