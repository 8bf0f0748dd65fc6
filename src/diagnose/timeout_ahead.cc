#include "diagnose/timeout_ahead.h"

#include <algorithm>

#include "base/text_format.h"
#include "diagnose/stack_text.h"
#include "diagnose/wait_chain.h"

namespace stepscope {

std::optional<Finding> judge_timeout(const JobStanding& job) {
  const WaitChain wait(job);
  std::set<int> busy;
  std::vector<int> victims;
  double waited_s = 0, timeout_s = 0;
  for (const RankStanding& r : job.ranks) {
    const bool waits = r.awaits || r.in_init;
    if (r.ended || r.leaving || r.timeout_s <= 0 || !waits || r.silent_s < kTimeoutAheadShare * r.timeout_s) continue;
    for (const int root : wait.roots_of(r.rank)) {
      const RankStanding* standing = wait.standing(root);
      if (root != r.rank && standing && !standing->ended && !wait.edge(root).blocked) busy.insert(root);
    }
    victims.push_back(r.rank);
    waited_s = std::max(waited_s, r.silent_s);
    timeout_s = timeout_s > 0 ? std::min(timeout_s, r.timeout_s) : r.timeout_s;
  }
  if (busy.empty()) return std::nullopt;
  const double left_s = std::max(0.0, timeout_s - waited_s);
  const RankStanding& first = *wait.standing(*busy.begin());
  Finding f = Finding::of(FindingKind::kTimeoutAhead);
  f.severity = Severity::kWarn;
  f.ranks.assign(busy.begin(), busy.end());
  f.victims = victims;
  f.phase = std::string(name(first.phase));
  f.first_step = f.last_step = f.detected_step = static_cast<int64_t>(first.steps);
  f.cost_seconds = waited_s;
  f.cost_share = job.run_s > 0 ? std::min(1.0, waited_s / job.run_s) : 0;
  f.coverage = job.world > 0 ? static_cast<double>(job.ranks.size()) / job.world : 1;
  f.confidence = 0.9;
  const std::string place = first.stack ? place_in_program(first.stack->frames) : "";
  const std::string busy_with = (first.phase == Category::kUnattributed ? "" : formatted(" in {}", name(first.phase))) +
                                (place.empty() ? "" : " at " + place);
  f.title = formatted("{} is busy{} while {}: the group's timeout of {:.0f} s ends the job in {:.0f} s",
                      capitalized(format_ranks(f.ranks)), busy_with, wait.waited_in(victims), timeout_s, left_s);
  f.action =
      "Raise the timeout of init_process_group, or let the others not wait in a collective for work of one rank "
      "(a store's key, monitored_barrier with a longer timeout)";
  f.evidence.push_back({"timeout_s", {}, timeout_s, {}, ""});
  f.evidence.push_back({"waited_s", {}, waited_s, {}, ""});
  f.evidence.push_back({"left_s", {}, left_s, {}, ""});
  if (!place.empty()) f.evidence.push_back({"where", first.rank, {}, {}, place});
  return f;
}

}  // namespace stepscope
