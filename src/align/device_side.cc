#include "align/device_side.h"

#include <algorithm>
#include <utility>

namespace stepscope {

void DeviceSide::add(RankStep step, int64_t now_ns) {
  waiting_.push_back(std::move(step));
  release(now_ns, false);
}

RankStep* DeviceSide::waiting_at(int64_t host_ns) {
  const auto at = std::find_if(waiting_.begin(), waiting_.end(), [&](const RankStep& s) { return host_ns < s.end_ns; });
  return at != waiting_.end() && host_ns >= at->begin_ns ? &*at : nullptr;
}

void DeviceSide::release(int64_t now_ns, bool all) {
  while (!waiting_.empty()) {
    RankStep& step = waiting_.front();
    if (!all && lane_.wants(step.end_ns, now_ns)) return;
    if (lane_.seen()) {
      step.gpu = lane_.take(step.begin_ns, step.end_ns);
      if (step.gpu && step.gpu->captured) step.tags |= kTagCaptured;
      const int64_t until_ns = step.gpu ? step.gpu->begin_ns + step.gpu->wall_ns : step.end_ns;
      ops_.take_until(until_ns, step.device_ops);
      if (step.gpu) stall_ends_.apply(step.device_ops, *step.gpu);
    }
    completed_.push_back(std::move(step));
    waiting_.pop_front();
  }
}

}  // namespace stepscope
