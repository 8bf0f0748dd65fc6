#include "analyze/onset.h"

#include <algorithm>

namespace stepscope {

namespace {

constexpr size_t kLook = 8;
constexpr double kCap = 8;  // of the threshold: one step alone cannot lift the mean of kLook above it

}  // namespace

size_t onset_index(size_t count, double threshold, const std::function<double(size_t)>& value, size_t late) {
  for (size_t i = 0; i < count; ++i) {
    if (!(value(i) > threshold)) continue;
    double sum = 0;
    size_t seen = 0, gap = 0;  // gap: steps to the next high one, 1 where all are high
    for (size_t at = i; at < count && seen < kLook; ++at) {
      const double ms = value(at);
      if (!(ms > -kCap * threshold)) continue;  // not known (NaN), or far below: no witness
      if (gap == 0 && at > i && ms > threshold) gap = at - i;
      sum += std::min(ms, kCap * threshold);
      ++seen;
    }
    // Of a constant figure more than half of what is looked at must be high, so that chance is no onset.
    const double least = gap == 1 ? 1.5 : 1.0;
    if (!(sum > least * threshold * static_cast<double>(seen))) continue;
    // It must go on: the first steps of a run may be high for reasons of their own, two of them together as well.
    const size_t from = std::min(i + kLook / 2, count), to = std::min(i + 3 * kLook / 2, count);
    bool goes_on = from >= to;
    for (size_t at = from; at < to && !goes_on; ++at) goes_on = value(at) > threshold;
    if (!goes_on) continue;
    // The first burst may come anywhere in the first round.
    return i <= 2 * gap + late ? 0 : i;
  }
  return 0;
}

}  // namespace stepscope
