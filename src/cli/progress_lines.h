// Lines of progress on stderr for --mode cli without a terminal (a log file, a batch job): how far, how fast, what
// holds the job back. The first after some seconds, then ever more rarely; a new verdict at once (after the first five
// seconds). The training's own output is left alone.
#pragma once

#include <string>

#include "cli/companion.h"
#include "cli/live_source.h"

namespace stepscope {

class ProgressLines : public Companion {
 public:
  explicit ProgressLines(const CompanionPlace& place);

  int wait_ms() const override { return 500; }
  void turn(uint64_t now_ns) override;

 private:
  LiveSource source_;
  const uint64_t began_ns_;
  size_t lines_ = 0;  // of those that come with time
  uint64_t changed_ns_ = 0;
  std::string verdict_;
};

// When line number `index` is due, in seconds from the start.
double progress_due_s(size_t index);
// "12.3 s · 148 steps · p50 79.4 ms · COMPUTE STRAGGLER (crit): Rank 1 is late in backward · costs 36 % of wall time".
std::string progress_line(const tui::Told& told);
// What must be said at once when it changes: kind, severity and place of what is wrong; "" = nothing is.
std::string verdict_key(const Snapshot& snapshot);

}  // namespace stepscope
