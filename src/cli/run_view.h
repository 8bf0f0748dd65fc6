// The terminal view of a run that we launch (companion.h has the contract).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "cli/companion.h"
#include "cli/kept_output.h"
#include "cli/live_source.h"
#include "cli/view_loop.h"

namespace stepscope {

class RunView : public Companion {
 public:
  // Null where the terminal cannot be had: we are in the background, or there is no pseudo terminal.
  static std::unique_ptr<RunView> open(const CompanionPlace& place);
  ~RunView() override;

  const int* stdio() const override { return stdio_; }
  void add_to(std::vector<pollfd>& set) const override;
  int wait_ms() const override { return 100; }
  void turn(uint64_t now_ns) override;
  bool take_line(const std::string& line) override;
  void end() override;

 private:
  RunView(const CompanionPlace& place, std::unique_ptr<tui::Terminal> terminal);

  bool open_output(int like_fd);
  void follow_size();
  bool read_output();
  void close_view();

  LiveSource source_;
  KeptOutput kept_;
  tui::OutputTail tail_;
  std::vector<std::string> lines_;  // ours, for afterwards
  Fd null_, master_, slave_;        // of the pseudo terminal; the slave stays open, so that the master never ends
  int stdio_[3] = {-1, -1, -1};
  int shown_on_ = -1;  // where the training's output goes when there is no view
  int columns_ = 0, rows_ = 0;
  std::unique_ptr<ViewLoop> view_;  // null: the reader has left it
  tui::Terminal* terminal_;
};

}  // namespace stepscope
