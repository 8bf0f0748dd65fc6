#include "flight/verdict.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "base/text_format.h"
#include "flight/waits.h"

namespace stepscope::flight {
namespace {

// Inputs of these are equal on all ranks; an all-to-all may carry what it likes.
bool equal_inputs(std::string_view name) {
  static constexpr std::array<std::string_view, 9> kNames = {
      "all_reduce", "allreduce_coalesced", "_all_gather_base", "_allgather_base", "_reduce_scatter_base",
      "broadcast",  "_broadcast_oop",      "reduce",           "barrier"};
  return std::ranges::find(kNames, name) != kNames.end();
}

std::string signature(const Operation& op) {
  if (!equal_inputs(op.name)) return op.name;
  return formatted("{} of {} {}", op.name, op.elements, op.dtypes);
}

std::string shown(const Operation& op) {
  return op.name + (op.sizes.empty() ? "" : " " + op.sizes) + (op.dtypes.empty() ? "" : " " + op.dtypes);
}

class Judge {
 public:
  explicit Judge(const JobDumps& job) : job_(job) {}

  Verdict judge() {
    find_rows();
    if (out_.rows.empty()) {
      out_.reason = "Nothing is unfinished on any rank whose dump is here.";
      return std::move(out_);
    }
    find_mismatches();
    waits_ = find_waits(job_, mismatched_operations_);
    if (job_.dumps.size() < 2 && job_.world.size() > 1) {
      return undecided(formatted("Only one dump of {} ranks is here: nothing can be compared.", job_.world.size()));
    }
    for (const auto& [waiter, culprit] : mismatched_pairs_) waits_.edges[waiter].insert(culprit);
    strong_evidence();
    if (named_.empty()) weaker_evidence();
    if (named_.empty()) crossed_orders();
    name_unseen();
    return finished();
  }

 private:
  Verdict undecided(std::string reason) {
    out_.outcome = Outcome::kUndecided;
    out_.reason = std::move(reason);
    return std::move(out_);
  }

  // The same place in a group, issued differently: the majority is right; where there is none, all are named.
  void find_mismatches() {
    for (const Group& group : job_.groups) {
      std::map<int64_t, std::vector<std::pair<int, const Operation*>>> places;
      for (const Member& member : group.members) {
        for (const Operation* op : member.unfinished) places[op->sequence].emplace_back(member.rank, op);
      }
      for (const auto& [sequence, ops] : places) {
        std::map<std::string, std::vector<std::pair<int, const Operation*>>> kinds;
        for (const auto& [rank, op] : ops) kinds[signature(*op)].emplace_back(rank, op);
        if (kinds.size() < 2) continue;
        mismatched_operations_.insert({&group, sequence});
        const auto most = std::ranges::max_element(kinds, {}, [](const auto& kind) { return kind.second.size(); });
        const bool majority = most->second.size() * 2 > ops.size();
        for (const auto& kind : kinds) {
          if (majority && kind.first == most->first) continue;
          const auto& other = kind.first == most->first
                                  ? kinds.begin()->first == most->first ? *std::next(kinds.begin()) : *kinds.begin()
                                  : *most;
          for (const auto& [rank, op] : kind.second) {
            name_culprit(rank, Kind::kMismatched,
                         formatted("{} is {} here, {} on rank {}", operation_text(group, *op), shown(*op),
                                   shown(*other.second.front().second), other.second.front().first));
          }
        }
        for (const auto& [waiter, unused] : ops) {
          for (const auto& [rank, op] : ops) {
            if (waiter != rank && named_.contains(rank)) mismatched_pairs_.emplace_back(waiter, rank);
          }
        }
        break;  // what comes after it in this group is out of step, too
      }
    }
  }

  void name_culprit(int rank, Kind kind, const std::string& reason) {
    auto [culprit, unused] = named_.try_emplace(rank, Culprit{rank, kind, {}});
    if (culprit->second.kind == kind && culprit->second.reasons.size() < kMaxReasons)
      culprit->second.reasons.push_back(reason);
  }

  void strong_evidence() {
    for (const auto& [rank, reasons] : waits_.behind) {
      for (const std::string& reason : reasons) name_culprit(rank, Kind::kGpuNeverFinishes, reason);
    }
    for (const auto& [rank, reasons] : waits_.missing) {
      if (waits_.busy.contains(rank) || named_.contains(rank)) continue;
      for (const std::string& reason : reasons) name_culprit(rank, Kind::kHostStuck, reason);
    }
  }

  void weaker_evidence() {
    for (const auto& [rank, reasons] : waits_.unstarted) {
      for (const std::string& reason : reasons) name_culprit(rank, Kind::kGpuNeverFinishes, reason);
    }
    for (const auto& [rank, reasons] : waits_.missing_transfer) {
      if (waits_.busy.contains(rank)) continue;
      for (const std::string& reason : reasons) name_culprit(rank, Kind::kHostStuck, reason);
    }
  }

  std::set<int> reached_from(int rank) const {
    std::set<int> seen;
    std::vector<int> todo = {rank};
    while (!todo.empty()) {
      const auto edges = waits_.edges.find(todo.back());
      todo.pop_back();
      if (edges == waits_.edges.end()) continue;
      for (const int next : edges->second) {
        if (seen.insert(next).second) todo.push_back(next);
      }
    }
    return seen;
  }

  bool leads_to_a_culprit(int rank) const {
    return std::ranges::any_of(reached_from(rank), [&](int other) { return other != rank && named_.contains(other); });
  }

  // Ranks that others miss, while they themselves wait, by a chain of waits, for those others.
  void crossed_orders() {
    for (const auto& [rank, reasons] : waits_.missing) {
      const auto unseen = [&](int other) { return waits_.unseen.contains(other); };
      const std::set<int> reached = reached_from(rank);
      if (!reached.contains(rank) || std::ranges::any_of(reached, unseen)) continue;
      for (const std::string& reason : reasons) name_culprit(rank, Kind::kCrossedOrder, reason);
    }
  }

  // A rank without a dump is named where others wait for it and nothing that is known explains their waiting. With most
  // of the job unseen the ones that are missing say nothing.
  void name_unseen() {
    if (job_.no_dump.size() + job_.silent.size() >= job_.dumps.size() - job_.silent.size()) return;
    const auto known = named_;
    for (const auto& [rank, reasons] : waits_.unseen) {
      const bool explained = std::ranges::any_of(waits_.edges, [&](const auto& edge) {
        return edge.second.contains(rank) &&
               (known.contains(edge.first) ||
                std::ranges::any_of(reached_from(edge.first), [&](int other) { return known.contains(other); }));
      });
      if (explained) continue;
      const bool no_dump = std::ranges::binary_search(job_.no_dump, rank);
      for (const std::string& reason : reasons)
        name_culprit(rank, Kind::kSilent, formatted("{}, {}", no_dump ? "no dump" : "an empty dump", reason));
    }
  }

  Verdict finished() {
    for (auto& [rank, culprit] : named_) out_.culprits.push_back(std::move(culprit));
    for (const int rank : waits_.busy) {
      if (!named_.contains(rank) && leads_to_a_culprit(rank)) out_.victims.push_back(rank);
    }
    if (!out_.culprits.empty()) {
      out_.outcome = Outcome::kCulprits;
      return std::move(out_);
    }
    const auto complete = [](const GroupRow& row) {
      return row.missing.empty() && row.unknown.empty() && row.finished.empty();
    };
    if (std::ranges::all_of(out_.rows, complete)) {
      out_.outcome = Outcome::kAllArrived;
      out_.reason =
          "Every rank has issued what is waited for and none has finished it: the transport or all GPUs are stuck, or "
          "the "
          "dump caught it in flight.";
      return std::move(out_);
    }
    return undecided(
        job_.no_dump.empty() && job_.silent.empty()
            ? "Ranks wait, but no rank is proven to be the cause."
            : formatted("{} of {} ranks have no dump, or an empty one: too few to say whom the others wait for.",
                        job_.no_dump.size() + job_.silent.size(), job_.world.size()));
  }

  void find_rows() {
    for (const Group& group : job_.groups) {
      const Operation* front = nullptr;
      for (const Member& member : group.members) {
        if (member.unfinished.empty()) continue;
        if (!front || member.unfinished.front()->sequence < front->sequence) front = member.unfinished.front();
      }
      GroupRow row{.name = group.name, .description = group.description};
      for (const Member& member : group.members) row.ranks.push_back(member.rank);
      if (front)
        fill(row, group, *front);
      else if (!fill_transfers(row, group))
        continue;
      out_.rows.push_back(std::move(row));
    }
  }

  static void fill(GroupRow& row, const Group& group, const Operation& front) {
    row.operation = formatted("{} {} {}", front.name, front.sequence, front.sizes);
    for (const Member& member : group.members) {
      const auto op = std::ranges::find(member.unfinished, front.sequence, &Operation::sequence);
      if (op != member.unfinished.end() && row.frame.empty()) row.frame = (*op)->frame;
      std::vector<int>& place = !member.known                        ? row.unknown
                                : member.completed >= front.sequence ? row.finished
                                : member.enqueued >= front.sequence  ? row.waiting
                                                                     : row.missing;
      place.push_back(member.rank);
    }
  }

  static bool fill_transfers(GroupRow& row, const Group& group) {
    for (const Member& member : group.members) {
      if (member.transfers.empty()) continue;
      if (row.operation.empty()) row.operation = member.transfers.front()->name + " " + member.transfers.front()->sizes;
      if (row.frame.empty()) row.frame = member.transfers.front()->frame;
      row.waiting.push_back(member.rank);
    }
    return !row.waiting.empty();
  }

  const JobDumps& job_;
  OperationSet mismatched_operations_;
  std::vector<std::pair<int, int>> mismatched_pairs_;  // who waits there, for whom
  Waits waits_;
  std::map<int, Culprit> named_;
  Verdict out_;
};

}  // namespace

std::string_view name(Kind kind) {
  switch (kind) {
    case Kind::kGpuNeverFinishes: return "gpu_never_finishes";
    case Kind::kHostStuck: return "host_stuck";
    case Kind::kMismatched: return "mismatched";
    case Kind::kCrossedOrder: return "crossed_order";
    case Kind::kSilent: return "silent";
  }
  return "unknown";
}

std::string_view name(Outcome outcome) {
  switch (outcome) {
    case Outcome::kCulprits: return "culprits";
    case Outcome::kAllArrived: return "all_arrived";
    case Outcome::kNothingStuck: return "nothing_stuck";
    case Outcome::kUndecided: return "undecided";
  }
  return "undecided";
}

Verdict judge(const JobDumps& job) { return Judge(job).judge(); }

}  // namespace stepscope::flight
