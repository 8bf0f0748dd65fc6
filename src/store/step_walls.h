// The table step_wall: a few plain numbers per step for people with `sqlite3`. The newest 512 to 1280 steps one by one,
// older ones thinned by halving, at most 256 lines per stride, the largest kept.
#pragma once

#include <cstdint>
#include <vector>

#include "align/step_table.h"
#include "store/part.h"

namespace stepscope::store {

struct StepWall {
  int32_t attempt = 0;
  uint64_t step = 0;
  uint32_t stride = 1, tags = 0;
  int64_t end_us = 0;  // since the run's start
  int64_t wall_us_p50 = 0, wall_us_max = 0, own_us_p50 = 0, own_us_max = 0, caused_us = 0;
  int32_t ranks = 0;                        // seen in this step
  int32_t own_rank = -1, caused_rank = -1;  // of the largest
};

StepWall wall_of(int32_t attempt, const StepRow& row, int64_t start_ns);
// Both steps as one line of twice the stride: the first one's middle, the larger extremes.
StepWall merged(const StepWall& first, const StepWall& second);

class StepWalls : public Part {
 public:
  static constexpr size_t kFullRows = 1024, kThinRows = 256;  // of stride 1, of each larger stride

  void add(const StepWall& wall);
  Status write(Database& db) override;
  void committed() override;
  void rolled_back() override {}
  uint64_t give_up() override {
    waiting_.clear();
    return 0;  // counted as rows already
  }

 private:
  Status thin_oldest(Database& db, uint32_t stride);

  std::vector<StepWall> waiting_;
  size_t unchecked_ = kFullRows;  // lines since the strides were counted last; the first write of a writer counts
};

}  // namespace stepscope::store
