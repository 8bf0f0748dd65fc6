// A terminal view at work: keys in, frames out, whatever it shows. The owner polls fd() and calls turn() at least every
// wait_ms(); nothing here waits. One thread.
#pragma once

#include <poll.h>

#include <cstdint>
#include <memory>
#include <string>

#include "tui/terminal.h"

namespace stepscope {

// From the environment of this process.
std::string no_view_reason_here();
ColorDepth color_depth_here();

class ViewLoop {
 public:
  ViewLoop(std::unique_ptr<tui::Terminal> terminal, tui::ScreenInput input);

  pollfd poll_set() const;
  int wait_ms() const { return kTickMs; }

  // Something new to show. While the reader holds the picture, only what is not of the run changes.
  void show(std::shared_ptr<const tui::Told> told);
  void say(std::string notice);
  void silent(double seconds) { input_.silent_s = seconds; }
  void output(const tui::OutputTail* tail) { input_.output = tail; }
  void output_changed() { changed_ = true; }

  void turn(uint64_t now_ns);
  // The reader wants to leave, or the terminal is gone.
  bool over() const { return over_ || terminal_->gone(); }
  void leave() { terminal_->leave(); }

 private:
  static constexpr int kTickMs = 100;

  void keys();
  void draw();

  std::unique_ptr<tui::Terminal> terminal_;
  tui::ScreenInput input_;
  tui::MemoryTrack memory_;
  tui::ViewState state_;
  tui::ViewLimits limits_;
  tui::KeyDecoder decoder_;
  std::shared_ptr<const tui::Told> newest_;
  bool changed_ = true, over_ = false, ours_ = false;
  uint64_t drawn_ns_ = 0, notice_ns_ = 0;
};

}  // namespace stepscope
