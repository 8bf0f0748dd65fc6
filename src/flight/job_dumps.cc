#include "flight/job_dumps.h"

#include <algorithm>
#include <set>

#include "base/text_format.h"

namespace stepscope::flight {
namespace {

using Members = std::vector<int>;  // group ranks in order

bool overlap(const Members& a, const Members& b) {
  return std::ranges::any_of(a, [&](int rank) { return std::ranges::find(b, rank) != b.end(); });
}

class Joiner {
 public:
  explicit Joiner(std::vector<RankDump> dumps) { out_.dumps = std::move(dumps); }

  Result<JobDumps> join() {
    std::ranges::stable_sort(out_.dumps, {}, &RankDump::rank);
    for (size_t i = 1; i < out_.dumps.size(); ++i) {
      const RankDump &a = out_.dumps[i - 1], &b = out_.dumps[i];
      if (a.rank == b.rank)
        return fail(formatted("{}: rank {} again, after {}; give the dumps of one job", b.file, b.rank, a.file));
    }
    for (const RankDump& dump : out_.dumps) {
      for (const Operation& op : dump.operations) operations_[dump.rank][op.group].push_back(&op);
    }
    if (Status status = collect_groups(); !status) return std::unexpected(status.error());
    for (const auto& [name, variants] : groups_) {
      for (const auto& [members, description] : variants) add_group(name, members, description);
    }
    find_world();
    return std::move(out_);
  }

 private:
  // Groups of one name with different ranks are groups of their own (made apart by processes that never meet), unless
  // they share a rank.
  Status collect_groups() {
    std::map<std::string, const RankDump*> first;
    for (const RankDump& dump : out_.dumps) {
      for (const auto& [name, group] : dump.groups) {
        auto& variants = groups_[name];
        if (variants.contains(group.ranks)) continue;
        for (const auto& [members, unused] : variants) {
          if (!overlap(members, group.ranks)) continue;
          return fail(formatted("{}: of another job than {}: group {} holds other ranks there", dump.file,
                                first[name]->file, name));
        }
        variants[group.ranks] = group.description;
        first.emplace(name, &dump);
      }
    }
    // A dump without pg_config: the members are those that have operations in the group.
    std::map<std::string, Members> bare;
    for (const RankDump& dump : out_.dumps) {
      for (const auto& [name, unused] : operations_[dump.rank]) {
        if (!dump.groups.contains(name)) bare[name].push_back(dump.rank);
      }
    }
    for (const auto& [name, members] : bare) {
      if (!groups_.contains(name)) groups_[name][members] = "";
    }
    return {};
  }

  const RankDump* dump_of(int rank) const {
    const auto found = std::ranges::lower_bound(out_.dumps, rank, {}, &RankDump::rank);
    return found != out_.dumps.end() && found->rank == rank ? &*found : nullptr;
  }

  void add_group(const std::string& name, const Members& ranks, const std::string& description) {
    Group group{name, description, {}};
    bool transfers = false, anything = false;
    for (const int rank : ranks) {
      Member member{.rank = rank};
      if (const RankDump* dump = dump_of(rank)) {
        member.known = dump->recorded;
        if (const auto found = operations_[rank].find(name); found != operations_[rank].end()) {
          anything = true;
          for (const Operation* op : found->second) {
            transfers |= op->p2p;
            add_operation(member, *op);
          }
        }
        anything |= dump->status.contains(name);
      }
      group.members.push_back(std::move(member));
    }
    if (!anything) return;
    for (Member& member : group.members) settle(member, name, transfers);
    out_.groups.push_back(std::move(group));
  }

  static void add_operation(Member& member, const Operation& op) {
    const bool finished = op.state == OpState::kCompleted;
    if (op.p2p) {
      if (!finished) member.transfers.push_back(&op);
      return;
    }
    member.enqueued = std::max(member.enqueued, op.sequence);
    if (finished)
      member.completed = std::max(member.completed, op.sequence);
    else
      member.unfinished.push_back(&op);
  }

  // What the status adds to the operations that are still in the recorder's ring. In a group with transfers it counts
  // either kind, whichever came last, and says nothing.
  void settle(Member& member, const std::string& name, bool transfers) const {
    std::ranges::stable_sort(member.unfinished, {}, &Operation::sequence);
    const RankDump* dump = dump_of(member.rank);
    if (dump && !transfers) {
      if (const auto status = dump->status.find(name); status != dump->status.end()) {
        member.enqueued = std::max(member.enqueued, status->second.enqueued);
        member.completed = std::max(member.completed, status->second.completed);
      }
    }
    // Operations of a group finish in order.
    if (!member.unfinished.empty()) member.completed = member.unfinished.front()->sequence - 1;
  }

  void find_world() {
    std::set<int> world;
    for (const auto& [name, variants] : groups_) {
      for (const auto& [members, unused] : variants) world.insert(members.begin(), members.end());
    }
    for (const RankDump& dump : out_.dumps) {
      world.insert(dump.rank);
      if (!dump.recorded) out_.silent.push_back(dump.rank);
    }
    out_.world.assign(world.begin(), world.end());
    for (const int rank : out_.world) {
      if (!dump_of(rank)) out_.no_dump.push_back(rank);
    }
  }

  JobDumps out_;
  std::map<int, std::map<std::string, std::vector<const Operation*>>> operations_;  // by rank and group
  std::map<std::string, std::map<Members, std::string>> groups_;
};

}  // namespace

const Member* Group::find(int rank) const {
  const auto found = std::ranges::find(members, rank, &Member::rank);
  return found == members.end() ? nullptr : &*found;
}

Result<JobDumps> join_dumps(std::vector<RankDump> dumps) { return Joiner(std::move(dumps)).join(); }

}  // namespace stepscope::flight
