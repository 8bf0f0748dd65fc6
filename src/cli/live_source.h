// What a live run tells of itself, asked for at a steady pace: the newest answer of its agent, parsed. The agent works
// it out only because somebody asks. Never waits; one thread. Cost: parsing an answer, about 4 ms for 64 ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "agent/summary_asker.h"
#include "tui/screen.h"

namespace stepscope {

class LiveSource {
 public:
  LiveSource(std::string shm_dir, uint64_t every_ns);

  // Asks when it is time, takes an answer when it is there. True: `told` is new.
  bool turn(uint64_t now_ns);

  std::shared_ptr<const tui::Told> told() const { return told_; }
  double silent_s(uint64_t now_ns) const { return static_cast<double>(now_ns - heard_ns_) * 1e-9; }

 private:
  SummaryAsker asker_;
  const uint64_t every_ns_;
  uint64_t asked_ns_ = 0, heard_ns_;
  std::shared_ptr<const tui::Told> told_;
};

}  // namespace stepscope
