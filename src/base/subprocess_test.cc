#include "base/subprocess.h"

#include <gtest/gtest.h>

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <sstream>
#include <string>

#include "base/fd.h"

namespace stepscope {
namespace {

SpawnRequest shell(const std::string& script) {
  SpawnRequest request;
  request.argv = {"sh", "-c", script};
  request.environment = current_environment();
  request.signals = SignalState::current();
  return request;
}

int run(const SpawnRequest& request) {
  const SpawnResult child = spawn(request);
  EXPECT_EQ(child.error, 0);
  int status = 0;
  EXPECT_EQ(::waitpid(child.pid, &status, 0), child.pid);
  return status;
}

TEST(Subprocess, ReturnsExitCodesAndSignalsAsAShellDoes) {
  EXPECT_EQ(shell_code(run(shell("exit 0"))), 0);
  EXPECT_EQ(shell_code(run(shell("exit 200"))), 200);
  EXPECT_EQ(shell_code(run(shell("kill -9 $$"))), 137);
}

TEST(Subprocess, TellsWhyAProgramCannotStart) {
  SpawnRequest request = shell("");
  request.argv = {"no-such-program-here"};
  EXPECT_EQ(spawn(request).error, ENOENT);
  request.argv = {"/etc/passwd"};
  EXPECT_EQ(spawn(request).error, EACCES);
  request.argv = {"/"};
  EXPECT_EQ(spawn(request).error, EACCES);
}

TEST(Subprocess, EnvironmentIsExactlyTheOneGiven) {
  std::vector<std::string> environment = {"PATH=/usr/bin:/bin", "A=1"};
  set_variable(environment, "A", "2");
  set_variable(environment, "AB", "3");
  unset_variable(environment, "B");
  EXPECT_EQ(environment, (std::vector<std::string>{"PATH=/usr/bin:/bin", "A=2", "AB=3"}));
  SpawnRequest request = shell("test \"$A$AB\" = 23 && test -z \"$HOME\"");
  request.environment = environment;
  EXPECT_EQ(run(request), 0);
}

TEST(Subprocess, RestoresMaskAndDispositions) {
  const SignalState before = SignalState::current();
  sigset_t block;
  sigemptyset(&block);
  sigaddset(&block, SIGTERM);
  sigprocmask(SIG_BLOCK, &block, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  SpawnRequest request = shell("kill -TERM $$; exit 1");
  request.signals = before;
  EXPECT_EQ(shell_code(run(request)), 128 + SIGTERM);
  request = shell("kill -PIPE $$; exit 1");
  request.signals = before;
  EXPECT_EQ(shell_code(run(request)), 128 + SIGPIPE);
  before.restore();
}

TEST(Subprocess, EarlySignalsReachTheChildInItsOwnPerson) {
  volatile sig_atomic_t early[65] = {};
  SpawnRequest request = shell("exit 0");
  request.early_signals = early;
  request.signals.ignored[SIGINT] = false;  // as in a shell's background job, which these tests may be
  EXPECT_EQ(run(request), 0);
  early[SIGINT] = 1;
  EXPECT_EQ(shell_code(run(request)), 128 + SIGINT);
}

TEST(Subprocess, DaemonHasItsOwnSessionAndKeepsNothingOpenButOneDescriptor) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);  // inheritable on purpose
  Fd read_end(ends[0]), write_end(ends[1]);
  // No pipeline: the shell itself would have its ends open for a moment.
  SpawnRequest request = shell("exec >&3; ps -o sid= -p $$; echo $$; ls -l /proc/self/fd");
  request.daemon = true;
  request.keep_fd = write_end.get();
  const SpawnResult child = spawn(request);
  ASSERT_EQ(child.error, 0);
  write_end.reset();
  ::waitpid(child.pid, nullptr, 0);
  std::string text;
  char buffer[512];
  for (ssize_t n; (n = ::read(read_end.get(), buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<size_t>(n));
  std::istringstream lines(text);
  int open = 0, session = -1, pid = -1;
  lines >> session >> pid;
  for (std::string line; std::getline(lines, line);) {
    const bool of_ls = line.find("/proc/") != std::string::npos;
    open += line.find("->") != std::string::npos && line.find("/dev/null") == std::string::npos && !of_ls;
  }
  EXPECT_EQ(open, 2) << text;  // 1 and 3: the pipe
  EXPECT_EQ(session, pid);
}

TEST(Subprocess, ProcStatAndPidfdTellHowAProcessEnded) {
  const SpawnResult child = spawn(shell("kill -9 $$"));
  ASSERT_EQ(child.error, 0);
  const Fd pidfd(open_pidfd(child.pid));
  if (pidfd) {
    pollfd wait = {pidfd.get(), POLLIN, 0};
    ASSERT_EQ(::poll(&wait, 1, 5000), 1);
  } else {
    siginfo_t info;
    ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child.pid), &info, WEXITED | WNOWAIT), 0);
  }
  const ProcStat zombie = proc_stat(child.pid);
  EXPECT_EQ(zombie.state, 'Z');
  EXPECT_EQ(zombie.exit_status, 9);
  EXPECT_GT(zombie.start_ticks, 0u);
  ::waitpid(child.pid, nullptr, 0);
  EXPECT_EQ(proc_stat(child.pid).state, 0);
  if (pidfd) {
    const int status = pidfd_exit_status(pidfd.get());
    EXPECT_TRUE(status == 9 || status == -1) << status;  // -1: a kernel before 6.15
  }
}

}  // namespace
}  // namespace stepscope
