// The reader's terminal: alternate screen, keys without echo, frames. One object at a time in a process, since signals
// have no owner.
//
// Whatever ends us leaves the terminal as it was: leave(), the destructor, an exception that unwinds, a fatal signal of
// our own (SEGV, BUS, ABRT, FPE, ILL: the handler restores the terminal and lets the signal go its way). Ctrl-Z gives
// the terminal back before we stop and takes it again when we go on in the foreground; in the background nothing is
// drawn and nothing set. SIGKILL alone cannot be helped: `reset` does.
//
// Keys come byte by byte and unechoed, but Ctrl-C, Ctrl-Z and Ctrl-\ stay what they are: signals to the foreground
// process group. The terminal is opened anew by its name, so that not waiting for it concerns nobody else. A terminal
// that does not take bytes (Ctrl-S, a slow line) costs frames, never time: draw() does not wait.
#pragma once

#include <memory>
#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "report/ink.h"
#include "tui/frame.h"
#include "tui/screen.h"

namespace stepscope::tui {

class Terminal {
 public:
  // `like_fd`: the terminal is the one behind this descriptor.
  static Result<std::unique_ptr<Terminal>> open(int like_fd, ColorDepth depth);
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  int fd() const { return fd_.get(); }  // readable when a key was pressed
  static bool ours();                   // whether the screen is taken: only then keys are ours to read
  Size size() const;

  // Takes the screen, or takes it again after Ctrl-Z, once we are in the foreground. Returns whether it is ours now.
  bool take();
  void leave();

  std::string read();                  // what was typed; "" = nothing
  bool gone() const { return gone_; }  // hung up

  void draw(const Grid& grid);
  bool pending() const { return !unwritten_.empty(); }  // call flush() when the terminal is writable
  void flush();

  // Whether its size may have changed since the last call.
  static bool take_resized();

 private:
  Terminal(Fd fd, ColorDepth depth);

  Fd fd_;
  ColorDepth depth_;
  Grid shown_;
  bool fresh_ = true, gone_ = false;
  std::string unwritten_;
};

}  // namespace stepscope::tui
