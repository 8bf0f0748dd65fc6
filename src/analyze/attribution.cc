#include "analyze/attribution.h"

#include <algorithm>
#include <cmath>

#include "analyze/sync_points.h"

namespace stepscope {

namespace {

// Whether every participant of a sync point was seen in it.
class Membership {
 public:
  Membership(const Groups& groups, const StepRow& row, int world_size)
      : groups_(groups),
        world_size_(static_cast<size_t>(std::max(0, world_size))),
        all_here_(row.cells.size() >= world_size_) {
    smaller_ = std::any_of(groups.begin(), groups.end(),
                           [&](const auto& g) { return g.second.members() > 1 && g.second.members() < world_size_; });
  }

  // Nobody told what its ranks waited for, and it may have been different things: none of them is the other's cause.
  bool is_guess(const SyncPoint& sync_point) const {
    const SyncPointKey& key = sync_point.key;
    return key.group == kUnseenGroup || (smaller_ && key.source < 0 && (key.counted || key.group == 0));
  }

  bool all_seen(const SyncPoint& sync_point) const {
    const SyncPointKey& key = sync_point.key;
    if (key.group == kSeenGroup) return true;
    if (key.source >= 0) return sync_point.participants.size() == 2;  // the pair is in the key
    if (key.counted || key.group == 0) return sync_point.participants.size() == world_size_;
    const auto found = groups_.find(key.group);
    if (found == groups_.end() || found->second.members() == 0) return all_here_;
    const std::vector<int>& members = found->second.ranks;
    if (members.empty()) return sync_point.participants.size() == found->second.size;
    return sync_point.participants.size() == members.size() &&
           std::all_of(sync_point.participants.begin(), sync_point.participants.end(), [&](const auto& participant) {
             return std::find(members.begin(), members.end(), participant.rank) != members.end();
           });
  }

 private:
  const Groups& groups_;
  size_t world_size_;
  bool all_here_;         // every rank of the job has this step
  bool smaller_ = false;  // groups than the job
};

// A wait that a rank brings along: who caused it, in which sync point. It explains the rank's lateness only to ranks
// that were not in that sync point, since those who were left it at the same moment.
struct Inherited {
  size_t sync_point;
  int causer;
  float ms;
};

bool took_part(const SyncPoint& sync_point, int at) {
  const auto participant = std::lower_bound(sync_point.participants.begin(), sync_point.participants.end(), at,
                                            [](const auto& s, int a) { return s.at < a; });
  return participant != sync_point.participants.end() && participant->at == at;
}

class Charges {
 public:
  Charges(StepRow& row, const std::vector<SyncPoint>& sync_points)
      : row_(row), sync_points_(sync_points), inherited_(row.cells.size()) {}

  // The cell `waiter` waited `wait_ms` for the cell `culprit` in sync point `m`; `unsure`: not all of its members were
  // seen.
  void charge(size_t m, int culprit, int waiter, float wait_ms, bool unsure) {
    float own_ms = wait_ms;
    for (const Inherited& past : inherited_[culprit]) {
      if (own_ms <= 0) break;
      if (past.causer == waiter || took_part(sync_points_[past.sync_point], waiter)) continue;
      const float part = std::min(own_ms, past.ms);
      add(m, past.causer, waiter, part, unsure);
      own_ms -= part;
    }
    if (own_ms > 0) add(m, culprit, waiter, own_ms, unsure);
  }

  // Waits of the sync point that is over become lateness that its members bring to later ones.
  void close_sync_point() {
    for (auto& [rank, past] : fresh_) inherited_[rank].push_back(past);
    fresh_.clear();
  }

 private:
  void add(size_t m, int causer, int waiter, float ms, bool unsure) {
    Cell& by = row_.cells[static_cast<size_t>(causer)];
    by.caused_ms += ms;
    if (unsure) by.caused_unsure_ms += ms;
    row_.caused.push_back({by.rank, row_.cells[static_cast<size_t>(waiter)].rank, ms});
    fresh_.push_back({waiter, {m, causer, ms}});
  }

  StepRow& row_;
  const std::vector<SyncPoint>& sync_points_;
  std::vector<std::vector<Inherited>> inherited_;
  std::vector<std::pair<int, Inherited>> fresh_;
};

void leave_unresolved(StepRow& row, const SyncPoint& sync_point) {
  for (const SyncPoint::Participant& participant : sync_point.participants) {
    row.cells[static_cast<size_t>(participant.at)].ms[index(Category::kUnresolved)] += participant.stall_ms;
    for (CellStall* part : participant.parts) part->unresolved_ms = part->stall_ms;
  }
}

// The host's stalls beside a GPU axis are not split; what is unresolved there is taken to be the same share of them.
void carry_to_host(Cell& cell) {
  if (!cell.gpu || cell.stall_ms <= 0) return;
  const float share = std::clamp(cell.ms[index(Category::kUnresolved)] / cell.stall_ms, 0.0f, 1.0f);
  const float ms = share * cell.host_ms[index(Category::kCommTransfer)];
  cell.host_ms[index(Category::kCommTransfer)] -= ms;
  cell.host_ms[index(Category::kUnresolved)] += ms;
}

}  // namespace

void attribute(StepRow& row, const Groups& groups, int world_size) {
  const Membership membership(groups, row, world_size > 0 ? world_size : static_cast<int>(row.cells.size()));
  std::vector<SyncPoint> sync_points = sync_points_of(row);
  Charges charges(row, sync_points);
  for (size_t m = 0; m < sync_points.size(); ++m) {
    SyncPoint& sync_point = sync_points[m];
    if (membership.is_guess(sync_point)) {
      leave_unresolved(row, sync_point);
      continue;
    }
    const bool whole = membership.all_seen(sync_point);
    const Category common = whole ? Category::kCommTransfer : Category::kUnresolved;
    const float common_ms = sync_point.last().stall_ms;
    const int culprit = sync_point.last().at;
    for (SyncPoint::Participant& participant : sync_point.participants) {
      Cell& cell = row.cells[participant.at];
      const float wait_ms = participant.stall_ms - common_ms;
      for (CellStall* part : participant.parts)
        (whole ? part->transfer_ms : part->unresolved_ms) =
            participant.stall_ms > 0 ? common_ms * (part->stall_ms / participant.stall_ms) : 0;
      cell.ms[index(common)] += common_ms;
      if (wait_ms <= 0) continue;
      cell.ms[index(Category::kStragglerWait)] += wait_ms;
      cell.wait_ms += wait_ms;
      charges.charge(m, culprit, participant.at, wait_ms, !whole);
    }
    charges.close_sync_point();
  }
  for (Cell& cell : row.cells) carry_to_host(cell);
  settle(row.caused);
}

size_t group_size(const Groups& groups, uint64_t id, int world_size) {
  if (id == 0) return static_cast<size_t>(std::max(0, world_size));
  const auto found = groups.find(id);
  return found == groups.end() ? 0 : found->second.members();
}

}  // namespace stepscope
