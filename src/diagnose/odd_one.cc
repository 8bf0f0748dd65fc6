#include "diagnose/odd_one.h"

#include <algorithm>

namespace stepscope {
namespace {

bool as_before(const StandsIn& call) {
  const auto& [rank, op] = call;
  return rank->turns.taken_twice(op->after, op->what, op->time_ns);
}

bool as_never_before(const StandsIn& call) {
  const auto& [rank, op] = call;
  return op->after != 0 && rank->turns.never_taken(op->after, op->what, op->time_ns);
}

}  // namespace

std::vector<int> odd_ones(const std::vector<StandsIn>& calls) {
  std::vector<StandsIn> usual, odd;
  for (const StandsIn& call : calls) {
    if (!as_before(call) && !as_never_before(call)) return {};
    (as_before(call) ? usual : odd).push_back(call);
  }
  if (odd.empty() || odd.size() > usual.size()) return {};
  std::vector<int> ranks;
  for (const auto& [rank, op] : odd) {
    const bool did_as_they = std::any_of(usual.begin(), usual.end(), [&](const StandsIn& other) {
      return rank->turns.taken_twice(op->after, other.second->what, op->time_ns);
    });
    // Outside of backward it may be what follows the loop, and the others have too much.
    const bool may_have_ended = rank->data_ended || (!rank->data_seen && !op->in_backward);
    if (!did_as_they || may_have_ended) return {};
    ranks.push_back(rank->rank);
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

}  // namespace stepscope
