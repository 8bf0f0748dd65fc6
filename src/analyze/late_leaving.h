// A rank that goes on late after a sync point that is over: a signal's handler, a hook, whatever computes in the
// training thread before it is back in the program. To the hooks it still waits, and the rank that arrived last would
// be charged with it. Who goes on late without a core (asleep, without the GIL) is not told from who waits.
//
//   lateness(r)  own time of rank r, and waits for others, since the sync point before that both ranks left, and by how
//                much it left that one late
//   explained    lateness of the last to arrive - lateness(r), at least 0: so long r can have waited for it
//   beyond       stall - transfer - explained
//   on a core    CPU time of the training thread in this step beyond its own time: what waits uses none
//
// The lesser of beyond and on a core is taken from the end of the stall and becomes own time of the phase that the
// stall interrupts, where it is more than kLeastMs and most of the wait. A broadcast's receivers leave later than its
// root, too, but use no core; a backend that spins while it waits uses one, but its waits are explained.
//
// Before attribution (analyze/attribution.h), row by row in order. Rows on a device's axis are left alone: nobody runs
// in between there. Memory: per rank 64 bytes. Cost: O(stalls) per row; O(stalls log stalls) where a rank has a core
// for longer than its own time.
#pragma once

#include <cstdint>
#include <map>

#include "align/step_table.h"

namespace stepscope {

class LateLeaving {
 public:
  static constexpr float kLeastMs = 5, kLeastShare = 0.5f;

  void settle(StepRow& row);

 private:
  // The newest sync point that a rank left, and the time since then on its own clock, late leaving included.
  struct Since {
    SyncPointKey key;
    uint64_t row = 0;
    float ms = 0;
  };
  std::map<int, Since> ranks_;
};

}  // namespace stepscope
