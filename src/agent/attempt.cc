#include "agent/attempt.h"

#include <algorithm>

namespace stepscope {
namespace {

bool known_and_different(int a, int b) { return a > 0 && b > 0 && a != b; }

}  // namespace

void Members::add(const Claim& claim) {
  ++count;
  all_left = all_left && claim.left;
  last_active_ns = std::max(last_active_ns, claim.active_ns);
  if (!claim.left) last_active_present_ns = std::max(last_active_present_ns, claim.active_ns);
  first_opened_ns = std::min(first_opened_ns, claim.opened_ns);
  if (claim.joined_ns > 0) first_joined_ns = std::min(first_joined_ns, claim.joined_ns);
}

Place place_of(const Claim& claim, const Attempt& attempt, const Members& members, const Claim* holder) {
  if (members.count == 0) return Place::kBegins;
  const bool other_world = known_and_different(claim.world_size, attempt.world_size);
  const bool older = claim.opened_ns < members.first_opened_ns;
  const bool beside = members.last_active_present_ns > claim.opened_ns;
  if (claim.restarts != attempt.restarts || other_world) {
    if (older && (claim.left || claim.restarts < attempt.restarts)) return Place::kHistory;
    return beside || (older && claim.restarts == attempt.restarts) ? Place::kWaits : Place::kBegins;
  }
  if (holder && holder->only_said_so && !claim.only_said_so) return Place::kTakesOver;
  if (members.all_left) {
    if (claim.opened_ns >= members.last_active_ns) return Place::kBegins;
    if (!holder) return Place::kJoins;
    // It trained while they did; it counts when it goes on without them.
    return claim.active_ns > members.last_active_ns && !claim.left ? Place::kBegins : Place::kWaits;
  }
  if (!holder) return Place::kJoins;
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
