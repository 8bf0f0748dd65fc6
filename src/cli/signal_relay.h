// Signals that reach the launcher: told apart and passed on only when the training did not get them itself.
//
// Ctrl-C and `kill -TERM -<group>` reach the training directly, since it shares our process group; `kill -TERM <pid of
// the launcher>` (a scheduler, a container's stop) does not. Passing on both would deliver some twice, and launchers of
// trainings treat a second SIGTERM as "now at once". A witness, a tiny forked process in our group that only waits for
// signals, tells which it was: it saw the signal too = the whole group got it.
//
// Relayed: HUP, INT, QUIT, TERM, USR1, USR2, as far as they were not ignored when we were started. One thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "base/fd.h"
#include "base/subprocess.h"

namespace stepscope {

class SignalRelay {
 public:
  // Blocks the relayed signals and SIGCHLD, and starts the witness. Without a witness (no process to be had) INT and
  // QUIT count as group signals and the others as ours alone.
  explicit SignalRelay(const SignalState& at_start);
  ~SignalRelay();
  SignalRelay(const SignalRelay&) = delete;
  SignalRelay& operator=(const SignalRelay&) = delete;

  int fd() const { return signals_.get(); }  // readable when a signal is pending

  // The next pending signal, if any; SIGCHLD included. Never waits.
  std::optional<int> next();

  // Whether the whole process group got the signal that next() just returned. Waits up to 20 ms for the witness.
  bool whole_group(int signal);

 private:
  Fd signals_, witness_;
  pid_t witness_pid_ = -1;
  uint64_t witnessed_ns_[65] = {};
};

}  // namespace stepscope
