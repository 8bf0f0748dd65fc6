// Starting programs exactly as the caller was started: what the child inherits is said here and nowhere else.
// Single-threaded callers only (fork). No output, no exceptions.
#pragma once

#include <csignal>
#include <sys/types.h>

#include <string>
#include <vector>

namespace stepscope {

// How this process was started, as far as exec passes it on. Taken first thing in main, handed back to children.
struct SignalState {
  sigset_t mask;          // blocked signals
  bool ignored[65] = {};  // SIG_IGN at start

  static SignalState current();
  // In a fresh child: mask and ignored signals as recorded, everything else SIG_DFL. Async-signal-safe.
  void restore() const;
};

struct SpawnRequest {
  std::vector<std::string> argv;         // argv[0] is looked up in PATH
  std::vector<std::string> environment;  // "NAME=value", complete
  SignalState signals;
  bool daemon = false;          // own session, stdio on /dev/null, every other descriptor closed
  int stdio[3] = {-1, -1, -1};  // what becomes standard input, output, error; -1 = as ours
  int keep_fd = -1;             // daemon only: this one becomes descriptor 3
  // Signals that arrived before the child existed, by number: the child sends them to itself before it execs.
  const volatile sig_atomic_t* early_signals = nullptr;
};

struct SpawnResult {
  pid_t pid = -1;
  int error = 0;  // errno of a failed fork or exec; 0 = the program runs
};

// Forks, execs and waits until the exec has succeeded or failed (a few hundred microseconds).
SpawnResult spawn(const SpawnRequest& request);

// A wait status as a shell states it: the exit code, or 128 + signal.
int shell_code(int wait_status);

// What the kernel says of a process, from /proc/<pid>/stat. Zeroes when it is gone.
struct ProcStat {
  char state = 0;  // R, S, D, T, Z …; 0 = no such process
  unsigned long long start_ticks = 0;
  int exit_status = 0;  // wait status, of a zombie
};
ProcStat proc_stat(pid_t pid);

// pidfd_open(2); -1 with errno when the kernel or the process does not allow it.
int open_pidfd(pid_t pid);

// Wait status of a process that has ended, by its pidfd, after anybody reaped it (Linux 6.15 and newer). -1 = unknown.
int pidfd_exit_status(int pidfd);

// The environment of this process as "NAME=value".
std::vector<std::string> current_environment();
void set_variable(std::vector<std::string>& environment, const std::string& name, const std::string& value);
void unset_variable(std::vector<std::string>& environment, const std::string& name);

}  // namespace stepscope
