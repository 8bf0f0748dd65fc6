#include "diagnose/wait_chain.h"

#include "base/text_format.h"
#include "diagnose/timed_collectives.h"

namespace stepscope {
bool kept_by_own_code(const RankStanding& r) {
  return (r.stack && r.stack->in_interpreter) || r.wait_channel.find("nanosleep") != std::string::npos;
}

const IssuedOp* issued_by(const RankStanding& r, uint64_t group, uint64_t sequence) {
  const auto place = r.groups.find(group);
  return place == r.groups.end() ? nullptr : place->second.find(sequence);
}

WaitChain::WaitChain(const JobStanding& job) : job_(job) {
  for (const RankStanding& r : job.ranks) by_rank_[r.rank] = &r;
  for (const RankStanding& r : job.ranks) waits_for_[r.rank] = find(r);
}

const RankStanding* WaitChain::standing(int rank) const {
  const auto found = by_rank_.find(rank);
  return found == by_rank_.end() ? nullptr : found->second;
}

std::set<int> WaitChain::roots_of(int rank) const {
  std::set<int> seen, roots;
  follow(rank, seen, roots);
  return roots;
}

void WaitChain::follow(int rank, std::set<int>& seen, std::set<int>& roots) const {
  if (!seen.insert(rank).second) return;
  const auto found = waits_for_.find(rank);
  if (found == waits_for_.end() || found->second.ranks.empty()) {
    roots.insert(rank);
    return;
  }
  for (const int other : found->second.ranks) follow(other, seen, roots);
}

std::vector<int> WaitChain::missing(int rank, uint64_t group, uint64_t sequence) const {
  std::vector<int> out;
  const auto members = job_.groups.find(group);
  std::vector<int> ranks;
  if (members != job_.groups.end()) ranks = members->second.ranks;
  if (ranks.empty())
    for (int r = 0; r < job_.world; ++r) ranks.push_back(r);
  for (const int other : ranks) {
    if (other == rank) continue;
    const RankStanding* standing = this->standing(other);
    if (!standing) {
      out.push_back(other);
      continue;
    }
    const auto place = standing->groups.find(group);
    const uint64_t issued = place == standing->groups.end() ? 0 : place->second.issued;
    if (issued <= sequence || standing->ended) out.push_back(other);
  }
  return out;
}

WaitChain::Edge WaitChain::find(const RankStanding& r) const {
  Edge edge;
  if (r.ended || r.leaving) return edge;
  if (r.in_init) {
    edge.init = edge.blocked = true;
    for (int other = 0; other < job_.world; ++other) {
      const RankStanding* standing = this->standing(other);
      if (other != r.rank && (!standing || standing->ended || (!standing->in_init && !standing->joined)))
        edge.ranks.push_back(other);
    }
    return edge;
  }
  if (r.awaits) {
    edge.blocked = true;
    edge.group = r.awaits->group, edge.sequence = r.awaits->sequence;
    edge.message = r.awaits->peer >= 0;
    edge.ranks = edge.message ? std::vector<int>{r.awaits->peer} : missing(r.rank, edge.group, edge.sequence);
    return edge;
  }
  if (r.state == 'T' || r.state == 't') return edge;
  // Ahead of others in a group: it cannot come past them, wherever its host stands (on a device, the host runs on and
  // waits elsewhere). Those behind cannot be silent because of it: it has issued all that they have.
  for (const auto& [group, place] : r.groups) {
    const auto named = job_.groups.find(group);
    if (kept_by_own_code(r) || place.newest.empty()) continue;
    if (named == job_.groups.end() || named->second.ranks.empty()) continue;
    const uint64_t last = place.newest.back().sequence;
    std::vector<int> behind = missing(r.rank, group, last);
    std::erase_if(behind, [&](int other) {
      const RankStanding* standing = this->standing(other);
      return standing && standing->awaits && standing->awaits->peer == r.rank;
    });
    if (behind.empty()) continue;
    edge.blocked = true;
    edge.group = group, edge.sequence = last;
    edge.ranks = std::move(behind);
    return edge;
  }
  return edge;
}

std::string WaitChain::words_of(uint64_t group, uint64_t sequence, const IssuedOp* op) const {
  const auto found = job_.groups.find(group);
  const std::string name = found == job_.groups.end() || found->second.name.empty() ? "" : " of " + found->second.name;
  return formatted("{} {}{}", op ? op_name(static_cast<CollectiveOp>(op->op)) : "operation", sequence, name);
}

std::string WaitChain::waited_in(const std::vector<int>& victims) const {
  if (victims.empty()) return "";
  const RankStanding* r = standing(victims.front());
  const Edge& in = edge(victims.front());
  if (!in.blocked) return "";
  if (in.init)
    return formatted("{} wait{} in init_process_group", format_ranks(victims), victims.size() == 1 ? "s" : "");
  if (in.message) return formatted("{} wait{} for a message", format_ranks(victims), victims.size() == 1 ? "s" : "");
  const IssuedOp* op = issued_by(*r, in.group, in.sequence);
  return formatted("{} wait{} in {}", format_ranks(victims), victims.size() == 1 ? "s" : "",
                   words_of(in.group, in.sequence, op));
}

}  // namespace stepscope
