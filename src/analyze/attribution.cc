#include "analyze/attribution.h"

#include <algorithm>
#include <cmath>

namespace stepscope {

namespace {

// One collective as the ranks of a row saw it; `at`: the cell in the row. Several stalls on one collective (a pause cut it in two) are one.
struct Meeting {
  struct Seat { int at; float stall_ms; std::vector<CellStall*> parts; };
  std::vector<Seat> seats;
  size_t order = 0;  // position in the step, of the rank that saw it first in its list
};

using Key = std::pair<uint64_t, uint64_t>;

std::vector<Meeting> meetings_of(StepRow& row) {
  std::map<Key, Meeting> by_key;
  for (size_t r = 0; r < row.cells.size(); ++r) {
    std::vector<CellStall>& stalls = row.cells[r].stalls;
    for (size_t j = 0; j < stalls.size(); ++j) {
      Meeting& meeting = by_key[{stalls[j].group, stalls[j].sequence}];
      meeting.order = std::max(meeting.order, j);
      if (meeting.seats.empty() || meeting.seats.back().at != static_cast<int>(r))
        meeting.seats.push_back({static_cast<int>(r), 0, {}});
      meeting.seats.back().stall_ms += stalls[j].stall_ms;
      meeting.seats.back().parts.push_back(&stalls[j]);
    }
  }
  std::vector<Meeting> list;
  for (auto& [key, meeting] : by_key) list.push_back(std::move(meeting));
  std::stable_sort(list.begin(), list.end(), [](const Meeting& a, const Meeting& b) { return a.order < b.order; });
  return list;
}

}  // namespace

namespace {

// A wait that a rank brings along: who caused it, in which meeting. It explains the rank's lateness only to ranks that
// were not in that meeting, since those who were left it at the same moment.
struct Inherited { size_t meeting; int causer; float ms; };

bool took_part(const Meeting& meeting, int at) {
  const auto seat = std::lower_bound(meeting.seats.begin(), meeting.seats.end(), at, [](const auto& s, int a) { return s.at < a; });
  return seat != meeting.seats.end() && seat->at == at;
}

class Charges {
 public:
  Charges(StepRow& row, const std::vector<Meeting>& meetings)
      : row_(row), meetings_(meetings), inherited_(row.cells.size()) {}

  // The cell `waiter` waited `wait_ms` for the cell `culprit` in meeting `m`.
  void charge(size_t m, int culprit, int waiter, float wait_ms) {
    float own_ms = wait_ms;
    for (const Inherited& past : inherited_[culprit]) {
      if (own_ms <= 0) break;
      if (past.causer == waiter || took_part(meetings_[past.meeting], waiter)) continue;
      const float part = std::min(own_ms, past.ms);
      add(m, past.causer, waiter, part);
      own_ms -= part;
    }
    if (own_ms > 0) add(m, culprit, waiter, own_ms);
  }

  // Waits of the meeting that is over become lateness that its members bring to later ones.
  void close_meeting() {
    for (auto& [rank, past] : fresh_) inherited_[rank].push_back(past);
    fresh_.clear();
  }

 private:
  void add(size_t m, int causer, int waiter, float ms) {
    Cell& by = row_.cells[static_cast<size_t>(causer)];
    by.caused_ms += ms;
    row_.caused.push_back({by.rank, row_.cells[static_cast<size_t>(waiter)].rank, ms});
    fresh_.push_back({waiter, {m, causer, ms}});
  }

  StepRow& row_;
  const std::vector<Meeting>& meetings_;
  std::vector<std::vector<Inherited>> inherited_;
  std::vector<std::pair<int, Inherited>> fresh_;
};

}  // namespace

void attribute(StepRow& row) {
  std::vector<Meeting> meetings = meetings_of(row);
  Charges charges(row, meetings);
  for (size_t m = 0; m < meetings.size(); ++m) {
    Meeting& meeting = meetings[m];
    const auto last = std::min_element(meeting.seats.begin(), meeting.seats.end(),
                                       [](const auto& a, const auto& b) { return a.stall_ms < b.stall_ms; });
    const float transfer_ms = last->stall_ms;
    const int culprit = last->at;
    for (Meeting::Seat& seat : meeting.seats) {
      Cell& cell = row.cells[seat.at];
      const float wait_ms = seat.stall_ms - transfer_ms;
      for (CellStall* part : seat.parts)
        part->transfer_ms = seat.stall_ms > 0 ? transfer_ms * (part->stall_ms / seat.stall_ms) : 0;
      cell.ms[index(Category::kCommTransfer)] += transfer_ms;
      if (wait_ms <= 0) continue;
      cell.ms[index(Category::kStragglerWait)] += wait_ms;
      cell.wait_ms += wait_ms;
      charges.charge(m, culprit, seat.at, wait_ms);
    }
    charges.close_meeting();
  }
  settle(row.caused);
}

}  // namespace stepscope
