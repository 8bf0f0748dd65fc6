// Signals that reach the launcher: told apart and passed on only when the training did not get them itself.
//
// Ctrl-C and `kill -TERM -<group>` reach the training directly, since it shares our process group; `kill -TERM <pid of
// the launcher>` (a scheduler, a container's stop) does not. Passing on both would deliver some twice, and launchers of
// trainings treat a second SIGTERM as "now at once". A witness, a tiny forked process in our group that blocks all
// signals, tells which it was: the signal is pending there too (/proc/<witness>/status) = the whole group got it. That
// is so however busy the machine is; the witness itself runs only afterwards, to take the signal off its list.
//
// Relayed: HUP, INT, QUIT, TERM, USR1, USR2, as far as they were not ignored when we were started. One thread.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <cstdint>
#include <optional>
#include <vector>

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

  // Around the fork of the training: between open_window() and close_window() the relayed signals are caught in
  // early_signals(). fork() copies that array as it is at the very moment at which the child comes into being, so each
  // signal is either in the child's copy (the child sends it to itself) or reaches the child like any other.
  void open_window();
  const volatile sig_atomic_t* early_signals() const;
  std::vector<int> close_window();  // the signals caught in it

  // Whether the whole process group got the signal that next() just returned. Waits up to 20 ms, for a sender that has
  // come to us first and not yet to the witness.
  bool whole_group(int signal);

 private:
  bool pending_at_witness(int signal) const;
  // Has the witness take the signal off its list.
  void take_off(int signal);
  // Whether it has done so. Waits up to 200 ms; false: what is pending there may be old.
  bool witness_is_clear();

  sigset_t relayed_;
  Fd signals_, witness_;  // witness_: a byte, the signal to take off; one back when that is done
  pid_t witness_pid_ = -1;
  int owed_ = 0;  // bytes that have not come back
};

}  // namespace stepscope
