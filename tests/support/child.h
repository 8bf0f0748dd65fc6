// Bodies that must run in a process of their own: limits, signals, forks.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

namespace stepscope::testing {

// The exit code, or 128 + the signal that ended it.
inline int wait_for(pid_t pid) {
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Forks and returns the child's pid; the child exits with the number that `body` returns.
template <class Body>
pid_t start_child(Body body) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(body());
  return pid;
}

template <class Body>
int in_child(Body body) {
  return wait_for(start_child(body));
}

}  // namespace stepscope::testing
