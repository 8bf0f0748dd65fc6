// How far apart the samples of one device must lie, so that all devices together take at most 0.3 % of a core.
//
// A sample with the slow fields (counters, links, processes; the first one opens them too) costs many times a plain one
// and comes once in `slow_every`: the two are learned apart. Until a plain one was seen the least interval holds.
// A plain object; no failure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace stepscope {

class SamplePace {
 public:
  static constexpr double kMaxShare = 0.003, kMaxIntervalNs = 30e9;

  explicit SamplePace(uint64_t slow_every) : slow_every_(static_cast<double>(slow_every)) {}

  // CPU time of one sample, slow fields included or not.
  void add(double cost_ns, bool slow) {
    double& known = slow ? slow_ns_ : plain_ns_;
    known = known < 0 ? cost_ns : 0.9 * known + 0.1 * cost_ns;
  }

  uint64_t interval_ns(uint64_t least_ns, size_t devices) const {
    if (plain_ns_ < 0) return least_ns;
    const double mean_ns = plain_ns_ + std::max(0.0, slow_ns_ - plain_ns_) / slow_every_;
    return std::max(
        least_ns, static_cast<uint64_t>(std::min(mean_ns * static_cast<double>(devices) / kMaxShare, kMaxIntervalNs)));
  }

 private:
  double slow_every_, plain_ns_ = -1, slow_ns_ = -1;  // < 0: not seen yet
};

}  // namespace stepscope
