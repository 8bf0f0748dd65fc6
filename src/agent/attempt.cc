#include "agent/attempt.h"

#include <algorithm>

namespace stepscope {
namespace {

bool known_and_different(int a, int b) { return a > 0 && b > 0 && a != b; }

bool all_left(const std::vector<Claim>& members) {
  return std::all_of(members.begin(), members.end(), [](const Claim& m) { return m.left; });
}

int64_t last_active_ns(const std::vector<Claim>& members) {
  int64_t last_ns = 0;
  for (const Claim& m : members) last_ns = std::max(last_ns, m.active_ns);
  return last_ns;
}

}  // namespace

Place place_of(const Claim& claim, const Attempt& attempt, const std::vector<Claim>& members) {
  if (members.empty()) return Place::kBegins;
  const auto holder =
      std::find_if(members.begin(), members.end(), [&](const Claim& m) { return m.rank == claim.rank; });
  const bool held = holder != members.end();
  const bool other_world = known_and_different(claim.world_size, attempt.world_size);
  const bool older =
      std::all_of(members.begin(), members.end(), [&](const Claim& m) { return claim.opened_ns < m.opened_ns; });
  const bool beside = std::any_of(members.begin(), members.end(),
                                  [&](const Claim& m) { return !m.left && m.active_ns > claim.opened_ns; });
  if (claim.restarts != attempt.restarts || other_world) {
    if (older && (claim.left || claim.restarts < attempt.restarts)) return Place::kHistory;
    return beside || (older && claim.restarts == attempt.restarts) ? Place::kWaits : Place::kBegins;
  }
  if (held && holder->only_said_so && !claim.only_said_so) return Place::kTakesOver;
  if (all_left(members)) {
    const int64_t ended_ns = last_active_ns(members);
    if (claim.opened_ns >= ended_ns) return Place::kBegins;
    if (!held) return Place::kJoins;
    // It trained while they did; it counts when it goes on without them.
    return claim.active_ns > ended_ns && !claim.left ? Place::kBegins : Place::kWaits;
  }
  if (!held) return Place::kJoins;
  return holder->left && holder->active_ns <= claim.opened_ns ? Place::kReplaces : Place::kWaits;
}

void StepClock::note(uint64_t step, int64_t end_ns) {
  if (!ends_.empty() && (step <= ends_.back().first || end_ns <= ends_.back().second)) return;
  ends_.emplace_back(step, end_ns);
  if (ends_.size() > kMaxEnds) ends_.pop_front();
}

std::optional<uint64_t> StepClock::step_at(int64_t end_ns) const {
  const auto after =
      std::lower_bound(ends_.begin(), ends_.end(), end_ns, [](const auto& e, int64_t t) { return e.second < t; });
  if (after == ends_.end()) return std::nullopt;
  if (after == ends_.begin()) return after->first;
  const auto before = std::prev(after);
  return end_ns - before->second < after->second - end_ns ? before->first : after->first;
}

}  // namespace stepscope
