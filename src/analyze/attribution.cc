#include "analyze/attribution.h"

#include <algorithm>
#include <cmath>

namespace stepscope {

namespace {

// One collective as the ranks of a row saw it; `at`: the cell in the row. Several stalls on one collective (a pause cut
// it in two) are one.
struct Meeting {
  struct Seat {
    int at, rank;
    float stall_ms;
    std::vector<CellStall*> parts;
  };
  MeetingKey key;
  std::vector<Seat> seats;  // by rank
  size_t order = 0;         // position in the step, of the rank that saw it latest in its list
};

std::vector<Meeting> meetings_of(StepRow& row) {
  std::map<MeetingKey, Meeting> by_key;
  for (size_t r = 0; r < row.cells.size(); ++r) {
    std::vector<CellStall>& stalls = row.cells[r].stalls;
    for (size_t j = 0; j < stalls.size(); ++j) {
      const MeetingKey key = stalls[j].key(row.cells[r].rank);
      Meeting& meeting = by_key[key];
      meeting.key = key;
      meeting.order = std::max(meeting.order, j);
      if (meeting.seats.empty() || meeting.seats.back().at != static_cast<int>(r))
        meeting.seats.push_back({static_cast<int>(r), row.cells[r].rank, 0, {}});
      meeting.seats.back().stall_ms += stalls[j].stall_ms;
      meeting.seats.back().parts.push_back(&stalls[j]);
    }
  }
  std::vector<Meeting> list;
  for (auto& [key, meeting] : by_key) list.push_back(std::move(meeting));
  std::stable_sort(list.begin(), list.end(), [](const Meeting& a, const Meeting& b) { return a.order < b.order; });
  return list;
}

// Whether every participant of a meeting was seen in it.
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
  bool is_guess(const Meeting& meeting) const {
    const MeetingKey& key = meeting.key;
    return key.group == kUnseenGroup || (smaller_ && key.source < 0 && (key.counted || key.group == 0));
  }

  bool all_seen(const Meeting& meeting) const {
    const MeetingKey& key = meeting.key;
    if (key.group == kSeenGroup) return true;
    if (key.source >= 0) return meeting.seats.size() == 2;  // the pair is in the key
    if (key.counted || key.group == 0) return meeting.seats.size() == world_size_;
    const auto found = groups_.find(key.group);
    if (found == groups_.end() || found->second.members() == 0) return all_here_;
    const std::vector<int>& members = found->second.ranks;
    if (members.empty()) return meeting.seats.size() == found->second.size;
    return meeting.seats.size() == members.size() &&
           std::all_of(meeting.seats.begin(), meeting.seats.end(), [&](const auto& seat) {
             return std::find(members.begin(), members.end(), seat.rank) != members.end();
           });
  }

 private:
  const Groups& groups_;
  size_t world_size_;
  bool all_here_;         // every rank of the job has this step
  bool smaller_ = false;  // groups than the job
};

// A wait that a rank brings along: who caused it, in which meeting. It explains the rank's lateness only to ranks that
// were not in that meeting, since those who were left it at the same moment.
struct Inherited {
  size_t meeting;
  int causer;
  float ms;
};

bool took_part(const Meeting& meeting, int at) {
  const auto seat =
      std::lower_bound(meeting.seats.begin(), meeting.seats.end(), at, [](const auto& s, int a) { return s.at < a; });
  return seat != meeting.seats.end() && seat->at == at;
}

class Charges {
 public:
  Charges(StepRow& row, const std::vector<Meeting>& meetings)
      : row_(row), meetings_(meetings), inherited_(row.cells.size()) {}

  // The cell `waiter` waited `wait_ms` for the cell `culprit` in meeting `m`; `unsure`: not all of its members were
  // seen.
  void charge(size_t m, int culprit, int waiter, float wait_ms, bool unsure) {
    float own_ms = wait_ms;
    for (const Inherited& past : inherited_[culprit]) {
      if (own_ms <= 0) break;
      if (past.causer == waiter || took_part(meetings_[past.meeting], waiter)) continue;
      const float part = std::min(own_ms, past.ms);
      add(m, past.causer, waiter, part, unsure);
      own_ms -= part;
    }
    if (own_ms > 0) add(m, culprit, waiter, own_ms, unsure);
  }

  // Waits of the meeting that is over become lateness that its members bring to later ones.
  void close_meeting() {
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
  const std::vector<Meeting>& meetings_;
  std::vector<std::vector<Inherited>> inherited_;
  std::vector<std::pair<int, Inherited>> fresh_;
};

void leave_unresolved(StepRow& row, const Meeting& meeting) {
  for (const Meeting::Seat& seat : meeting.seats) {
    row.cells[static_cast<size_t>(seat.at)].ms[index(Category::kUnresolved)] += seat.stall_ms;
    for (CellStall* part : seat.parts) part->unresolved_ms = part->stall_ms;
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
  std::vector<Meeting> meetings = meetings_of(row);
  Charges charges(row, meetings);
  for (size_t m = 0; m < meetings.size(); ++m) {
    Meeting& meeting = meetings[m];
    if (membership.is_guess(meeting)) {
      leave_unresolved(row, meeting);
      continue;
    }
    const bool whole = membership.all_seen(meeting);
    const Category common = whole ? Category::kCommTransfer : Category::kUnresolved;
    const auto last = std::min_element(meeting.seats.begin(), meeting.seats.end(),
                                       [](const auto& a, const auto& b) { return a.stall_ms < b.stall_ms; });
    const float common_ms = last->stall_ms;
    const int culprit = last->at;
    for (Meeting::Seat& seat : meeting.seats) {
      Cell& cell = row.cells[seat.at];
      const float wait_ms = seat.stall_ms - common_ms;
      for (CellStall* part : seat.parts)
        (whole ? part->transfer_ms : part->unresolved_ms) =
            seat.stall_ms > 0 ? common_ms * (part->stall_ms / seat.stall_ms) : 0;
      cell.ms[index(common)] += common_ms;
      if (wait_ms <= 0) continue;
      cell.ms[index(Category::kStragglerWait)] += wait_ms;
      cell.wait_ms += wait_ms;
      charges.charge(m, culprit, seat.at, wait_ms, !whole);
    }
    charges.close_meeting();
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
