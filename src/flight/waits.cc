#include "flight/waits.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "base/text_format.h"

namespace stepscope::flight {
namespace {

// No rank can finish these before every rank has taken part; a broadcast's root, say, can.
bool needs_everybody(std::string_view name) {
  static constexpr std::array<std::string_view, 4> kStarts = {"all", "_all", "reduce_scatter", "_reduce_scatter"};
  return name == "barrier" ||
         std::ranges::any_of(kStarts, [&](std::string_view start) { return name.starts_with(start); });
}

// "send 0->3": place 0 sends to place 3; "recv 0<-3": place 0 receives from place 3.
std::optional<size_t> peer_place(std::string_view name) {
  const size_t arrow = std::min(name.find("->"), name.find("<-"));
  if (arrow == std::string_view::npos) return std::nullopt;
  size_t place = 0;
  const char *first = name.data() + arrow + 2, *end = name.data() + name.size();
  const auto [next, error] = std::from_chars(first, end, place);
  return error == std::errc() && next == end ? std::optional(place) : std::nullopt;
}

bool times_starts(const RankDump& dump) {
  return std::ranges::any_of(dump.operations, &Operation::timed) ||
         std::ranges::any_of(dump.status, [](const auto& entry) { return entry.second.started >= 0; });
}

class WaitFinder {
 public:
  WaitFinder(const JobDumps& job, const OperationSet& excluded) : job_(job), excluded_(excluded) {
    for (const RankDump& dump : job.dumps) {
      dumps_[dump.rank] = &dump;
      const auto unfinished =
          std::ranges::find_if(dump.operations, [](const Operation& op) { return op.state != OpState::kCompleted; });
      if (unfinished != dump.operations.end())
        first_unfinished_[dump.rank] = unfinished->record, out_.busy.insert(dump.rank);
    }
  }

  Waits find() {
    for (const Group& group : job_.groups) {
      for (const Member& member : group.members) {
        if (!member.unfinished.empty()) collective(group, member, *member.unfinished.front());
        for (const Operation* op : member.transfers) transfer(group, member, *op);
      }
      starts(group);
    }
    return std::move(out_);
  }

 private:
  static void note(std::map<int, std::vector<std::string>>& proofs, int rank, std::string sentence) {
    std::vector<std::string>& sentences = proofs[rank];
    if (sentences.size() < 8 && std::ranges::find(sentences, sentence) == sentences.end())
      sentences.push_back(std::move(sentence));
  }

  void collective(const Group& group, const Member& waiter, const Operation& op) {
    const std::string what = operation_text(group, op);
    const bool judged = !excluded_.contains({&group, op.sequence});
    std::vector<int> finished, unseen;
    bool all_seen_here = true;
    for (const Member& other : group.members) {
      if (other.rank == waiter.rank) continue;
      if (!other.known) {
        unseen.push_back(other.rank);
      } else if (other.enqueued < op.sequence) {
        out_.edges[waiter.rank].insert(other.rank);
        note(out_.missing, other.rank, formatted("others wait in {}, it has issued up to {}", what, other.enqueued));
        all_seen_here = false;
      } else if (other.completed >= op.sequence) {
        finished.push_back(other.rank);
        all_seen_here = false;
      } else if (other.unfinished.empty()) {
        continue;  // issued by its status, and no longer among its recorded operations
      } else if (other.unfinished.front()->sequence < op.sequence) {
        out_.edges[waiter.rank].insert(other.rank);  // it is still at an earlier one
        all_seen_here = false;
      } else if (first_unfinished_[other.rank] < other.unfinished.front()->record) {
        out_.edges[waiter.rank].insert(other.rank);  // its GPU is still at what it issued before, in another group
      }
    }
    if (!finished.empty() && judged && needs_everybody(op.name)) {
      note(out_.behind, waiter.rank, formatted("{} is finished on rank {}, not here", what, finished.front()));
    }
    for (const int rank : unseen) {
      out_.edges[waiter.rank].insert(rank);
      if (all_seen_here) note(out_.unseen, rank, formatted("all that are seen wait in {}", what));
    }
  }

  void transfer(const Group& group, const Member& waiter, const Operation& op) {
    const auto place = peer_place(op.name);
    if (!place || *place >= group.members.size()) return;
    const Member& peer = group.members[*place];
    out_.edges[waiter.rank].insert(peer.rank);
    const std::string what =
        formatted("{} of {}", op.name, group.description.empty() ? "group " + group.name : group.description);
    if (!peer.known) return note(out_.unseen, peer.rank, formatted("rank {} waits in {}", waiter.rank, what));
    const char* answer = op.name.starts_with("send") ? "recv" : "send";
    const bool answered = std::ranges::any_of(peer.transfers, [&](const Operation* other) {
      const auto back = peer_place(other->name);
      return other->name.starts_with(answer) && back && *back < group.members.size() &&
             group.members[*back].rank == waiter.rank;
    });
    if (!answered)
      note(out_.missing_transfer, peer.rank,
           formatted("rank {} waits in {}, it has no {} for it", waiter.rank, what, answer));
  }

  // Where GPUs are timed: everybody has issued the operation, some GPUs have begun it, others hang before it.
  void starts(const Group& group) {
    const Operation* front = nullptr;
    for (const Member& member : group.members) {
      if (!member.known || member.unfinished.empty()) return;
      const Operation* first = member.unfinished.front();
      if (front && front->sequence != first->sequence) return;
      front = first;
    }
    if (!front || excluded_.contains({&group, front->sequence})) return;
    std::vector<int> idle;
    bool begun = false;
    for (const Member& member : group.members) {
      const Operation& first = *member.unfinished.front();
      begun |= first.state == OpState::kStarted;
      if (first.state == OpState::kScheduled && first.record == first_unfinished_[member.rank] &&
          times_starts(*dumps_[member.rank])) {
        idle.push_back(member.rank);
      }
    }
    if (!begun) return;
    for (const int rank : idle) {
      note(out_.unstarted, rank,
           formatted("{} has begun on other GPUs, not on this one", operation_text(group, *front)));
      for (const Member& member : group.members) {
        if (member.rank != rank) out_.edges[member.rank].insert(rank);
      }
    }
  }

  const JobDumps& job_;
  const OperationSet& excluded_;
  std::map<int, const RankDump*> dumps_;
  std::map<int, int64_t> first_unfinished_;
  Waits out_;
};

}  // namespace

std::string operation_text(const Group& group, const Operation& op) {
  const std::string place =
      group.description.empty() ? "group " + group.name : group.description + " (group " + group.name + ")";
  return formatted("{} {} of {}", op.name, op.sequence, place);
}

Waits find_waits(const JobDumps& job, const OperationSet& excluded) { return WaitFinder(job, excluded).find(); }

}  // namespace stepscope::flight
