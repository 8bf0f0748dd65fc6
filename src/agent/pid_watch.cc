#include "agent/pid_watch.h"

#include <poll.h>

#include "base/subprocess.h"

namespace stepscope {

PidWatch::PidWatch(pid_t pid, uint64_t start_ticks) : pid_(pid), start_ticks_(start_ticks) {
  if (pid <= 0) return;
  // First the handle, then the identity: the other way round the pid could change hands in between.
  pidfd_.reset(open_pidfd(pid));
  const ProcStat stat = proc_stat(pid);
  found_ = stat.state != 0 && (start_ticks == 0 || stat.start_ticks == start_ticks);
  if (!found_) {
    pidfd_.reset();
    dead_ = true;
    return;
  }
  start_ticks_ = stat.start_ticks;
}

bool PidWatch::alive() {
  if (dead_) return false;
  if (pidfd_) {
    pollfd wait = {pidfd_.get(), POLLIN, 0};
    dead_ = ::poll(&wait, 1, 0) > 0;
  } else {
    const ProcStat stat = proc_stat(pid_);
    dead_ = stat.state == 0 || stat.state == 'Z' || stat.state == 'X' || stat.start_ticks != start_ticks_;
  }
  return !dead_;
}

std::optional<int> PidWatch::exit_status() const {
  if (!found_) return std::nullopt;
  const ProcStat stat = proc_stat(pid_);
  if (stat.state == 'Z' && stat.start_ticks == start_ticks_) return stat.exit_status;
  if (pidfd_) {
    if (const int status = pidfd_exit_status(pidfd_.get()); status >= 0) return status;
  }
  return std::nullopt;
}

}  // namespace stepscope
