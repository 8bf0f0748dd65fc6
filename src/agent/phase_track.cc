#include "agent/phase_track.h"

#include <algorithm>

namespace stepscope {

void PhaseTrack::note(int64_t at_ns, PhaseNow now) {
  if (open() && (changes_.back().second == now || at_ns < changes_.back().first)) {
    // Of another thread, stamped before and written later: the phase changed no later than it was known to.
    changes_.back().second = now;
    return;
  }
  changes_.emplace_back(at_ns, now);
  if (changes_.size() > kMostChanges) changes_.pop_front();
}

std::optional<PhaseTrack::Stay> PhaseTrack::stay_at(int64_t at_ns) const {
  const auto next = std::upper_bound(changes_.begin(), changes_.end(), at_ns,
                                     [](int64_t at, const auto& change) { return at < change.first; });
  if (next == changes_.begin() || next == changes_.end()) return std::nullopt;
  const auto& [begin_ns, in] = *(next - 1);
  return Stay{in, begin_ns, next->first};
}

void PhaseTrack::forget_before(int64_t at_ns) {
  while (changes_.size() > 1 && changes_[1].first <= at_ns) changes_.pop_front();
}

}  // namespace stepscope
