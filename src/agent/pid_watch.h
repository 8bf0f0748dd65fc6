// Follows one process that is not our child: alive or dead, and how it died.
//
// By pidfd: it becomes readable when the last thread is gone, so that an epoll set tells the order of deaths. The exit
// status is read from /proc while the process is still a zombie, and from the pidfd itself after somebody reaped it
// (Linux 6.15). Where pidfds are not to be had, alive() asks /proc; the status then stays unknown.
// A pid that was given to another process meanwhile is told by its start time. Owns the descriptor. One thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "base/fd.h"

namespace stepscope {

class PidWatch {
 public:
  PidWatch() = default;
  // `start_ticks` 0 = whatever runs under that pid now.
  PidWatch(pid_t pid, uint64_t start_ticks);

  // False: there was no such process when we looked first; it is dead or lives in another pid namespace.
  bool found() const { return found_; }
  int fd() const { return pidfd_.get(); }  // -1 = poll alive() instead
  pid_t pid() const { return pid_; }

  bool alive();                            // cheap; false for ever once false
  std::optional<int> exit_status() const;  // wait status, after death

 private:
  pid_t pid_ = 0;
  uint64_t start_ticks_ = 0;
  Fd pidfd_;
  bool found_ = false, dead_ = false;
};

}  // namespace stepscope
