// Keeps the steps of the run file within their room: the newest are whole, older ones are thinned by halving, the more
// the older. Level 0 may fill half of the room, the levels after it share the other half, each 0.7 of the one before;
// and level 0 keeps the newest `full_steps` rows, further levels half as many each. What is over is thinned from its
// oldest end into the next level.
//
// Holds the heads of all segments (some 100 bytes each, a few thousand at most). Work per call is bounded, so that a
// flush stays short.
#pragma once

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "store/segment_store.h"

namespace stepscope::store {

// How many rows a full segment of so many ranks has.
uint32_t target_rows(uint32_t ranks, uint64_t max_bytes, uint32_t full_steps);

class Retention {
 public:
  Retention(uint64_t max_bytes, uint32_t full_steps) : max_bytes_(max_bytes), full_steps_(full_steps) {}

  Status load(SegmentStore& store);
  void add(const SegmentHead& head);
  void remove(int64_t id);
  // Segments that are about to be replaced: they stay as they are.
  void set_pinned(std::set<int64_t> ids) { pinned_ = std::move(ids); }
  // Thins what is over, at most `operations` times. Inside a transaction; after a roll-back call load().
  Status enforce(SegmentStore& store, ColumnCodec& codec, unsigned operations);
  // Less room than was thought: the file met its bound.
  void tighten() { share_ *= 0.8; }
  // The newest step of an attempt that is in the file, -1 = none.
  int64_t last_step(int32_t attempt) const;
  uint64_t bytes() const;
  uint64_t dropped_steps() const { return dropped_steps_; }

 private:
  uint64_t room(uint32_t level) const;      // bytes
  uint64_t promised(uint32_t level) const;  // rows that stay
  uint64_t bytes_of(uint32_t level) const;
  bool over(uint32_t level) const;
  std::vector<SegmentHead> oldest_run(uint32_t level) const;
  Status thin_level(uint32_t level, SegmentStore& store, ColumnCodec& codec);
  Status drop_oldest(SegmentStore& store);

  uint64_t max_bytes_;
  uint32_t full_steps_;
  double share_ = 0.7;              // of max_bytes; the rest: pages in transit, samples, findings
  std::vector<SegmentHead> heads_;  // in the order of attempt and step
  std::set<int64_t> pinned_;
  uint64_t dropped_steps_ = 0;
};

}  // namespace stepscope::store
