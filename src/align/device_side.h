// What the device did in the steps of one rank: steps that are complete on the host wait here until their events on the
// GPU clock are resolved, or are given up (GpuLane::kPatienceNs). Without a device they pass at once.
//
// A plain single-threaded object. Bounded as its parts are; steps that wait are those of kPatienceNs.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "align/device_ops.h"
#include "align/gpu_lane.h"
#include "align/rank_step.h"

namespace stepscope {

class DeviceSide {
 public:
  GpuLane& lane() { return lane_; }
  DeviceOps& ops() { return ops_; }

  void add(RankStep step, int64_t now_ns);
  // Hands out the steps whose device events are here, or that have none to wait for; with `all`, every one. `now_ns`:
  // the newest record's time.
  void release(int64_t now_ns, bool all);

  // The step that went on at `host_ns` and waits here, else nullptr.
  RankStep* waiting_at(int64_t host_ns);

  std::vector<RankStep>& completed() { return completed_; }  // in order; the caller empties it

 private:
  GpuLane lane_;
  DeviceOps ops_;
  StallEnds stall_ends_;
  std::deque<RankStep> waiting_;
  std::vector<RankStep> completed_;
};

}  // namespace stepscope
