#include "sampler/series.h"

#include <algorithm>
#include <cmath>

namespace stepscope {

void Series::add(int64_t time_ns, double value) {
  if (!std::isfinite(value)) return;
  if (facts_.count == 0) {
    facts_.points.reserve(capacity_);
    facts_.min = facts_.max = value;
  }
  ++facts_.count;
  facts_.last = value;
  facts_.mean += (value - facts_.mean) / static_cast<double>(facts_.count);
  facts_.min = std::min(facts_.min, value);
  facts_.max = std::max(facts_.max, value);

  if (pending_ == 0) {
    pending_base_ns_ = time_ns;
    pending_value_ = pending_offset_ns_ = 0;
  }
  ++pending_;
  pending_value_ += (value - pending_value_) / static_cast<double>(pending_);
  // Offsets, not times: a double cannot hold nanoseconds since boot exactly.
  pending_offset_ns_ +=
      (static_cast<double>(time_ns - pending_base_ns_) - pending_offset_ns_) / static_cast<double>(pending_);
  if (pending_ < stride_) return;
  if (facts_.points.size() == capacity_) {
    // The finished point must have the new stride: merging first makes it half a point, so it waits for its pair.
    merge_pairs();
    return;
  }
  facts_.points.push_back({pending_base_ns_ + static_cast<int64_t>(pending_offset_ns_), pending_value_});
  pending_ = 0;
}

void Series::merge_pairs() {
  auto& p = facts_.points;
  for (size_t i = 0; i + 1 < p.size(); i += 2) {
    p[i / 2] = {p[i].time_ns + (p[i + 1].time_ns - p[i].time_ns) / 2, (p[i].value + p[i + 1].value) / 2};
  }
  p.resize(p.size() / 2);
  stride_ *= 2;
}

}  // namespace stepscope
