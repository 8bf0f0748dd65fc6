// The run by epochs: exact sums over all closed rows between changes of the epoch's number. A row belongs to the newest
// epoch that one of its ranks is in, a row without a number to the epoch before it. Validation and saves that an
// epoch's first row begins with belong to the epoch before: they end it.
//
// A plain value; O(kMaxEpochs) memory: the first epoch and the newest are kept. O(ranks × categories) per row.
#pragma once

#include <cstdint>
#include <deque>

#include "align/step_table.h"

namespace stepscope {

struct EpochSums {
  int32_t epoch = 0;
  uint64_t first_step = 0, last_step = 0, steps = 0;
  double wall_ms = 0;                       // of the job: per step the longest rank
  std::array<double, kCategoryCount> ms{};  // mean over ranks
  double samples = 0;                       // of the job
};

class Epochs {
 public:
  static constexpr size_t kMaxEpochs = 256;

  void add(const StepRow& row);
  // Empty where they say nothing: fewer than two, or hardly longer than a step (an iterator made for each batch).
  std::deque<EpochSums> told() const;
  uint32_t count() const { return count_; }  // with those that are no longer kept

 private:
  static void give_back(EpochSums& opened, EpochSums& before);

  std::deque<EpochSums> kept_;
  uint32_t count_ = 0;
  uint64_t steps_ = 0;
};

}  // namespace stepscope
