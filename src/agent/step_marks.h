// What an agent leaves for its successor, should it be killed: per rank process how many steps it had counted, when
// the last one ended, and how the process died. A ring holds the newest records only; without this a second agent would
// count steps from 0 again wherever the ring begins.
//
// One small file of fixed entries in the run's shared-memory folder, reserved up front and written in place (one
// pwrite per rank and pass). Failure: without room there are no marks; numbering after a restart is then a lower bound.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/fd.h"

namespace stepscope {

struct StepMark {
  int32_t pid = 0;
  int32_t wait_status = -1;  // -1 = unknown or alive
  uint64_t start_ticks = 0;
  uint64_t steps = 0;  // completed
  int64_t first_step_ns = 0, last_step_ns = 0;
  int64_t death_ns = 0;  // 0 = alive
  uint64_t reserved = 0;
  uint64_t check = 0;  // of the words above: a half-written entry counts for nothing
};
static_assert(sizeof(StepMark) == 64);

class StepMarks {
 public:
  static constexpr size_t kMaxEntries = 1024;

  StepMarks() = default;
  // Reads what a predecessor left, then makes room. "" = no folder, nothing is kept.
  explicit StepMarks(const std::string& shm_dir);

  std::optional<StepMark> predecessor(int pid, uint64_t start_ticks) const;
  void put(StepMark mark);  // skipped when equal to what was put last

 private:
  Fd fd_;
  std::map<std::pair<int, uint64_t>, StepMark> before_;
  std::map<std::pair<int, uint64_t>, std::pair<size_t, StepMark>> mine_;
};

}  // namespace stepscope
