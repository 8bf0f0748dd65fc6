#include "analyze/replay_row.h"

#include <algorithm>
#include <map>

namespace stepscope {

namespace {

// What all who stand at a sync point wait for together; where not all members were seen it is kept as it was.
float common_ms(const CellStall& stall) { return stall.transfer_ms + stall.unresolved_ms; }

void go_on(Lane& lane, size_t segment, double& now) {
  if (segment >= lane.segments.size()) return;
  lane.begins[segment] = now;
  now += lane.segments[segment];
}

}  // namespace

WholeCell::WholeCell(const Cell& cell)
    : own(cell.ms), sync_point{kSeenGroup,          0,
                               cell.stall_ms,       cell.ms[index(Category::kCommTransfer)],
                               Category::kBackward, cell.ms[index(Category::kUnresolved)]} {
  for (size_t c = 0; c < kCategoryCount; ++c)
    if (is_of_stalls(static_cast<Category>(c))) own[c] = 0;
}

RowSegments::RowSegments(const StepRow& row) : row_(&row) {
  if (row.detailed) return;
  whole_.reserve(row.cells.size());
  for (const Cell& cell : row.cells) whole_.emplace_back(cell);
}

std::span<const LedgerMs> RowSegments::segments(size_t cell) const {
  if (row_->detailed) return row_->cells[cell].segments;
  return std::span(&whole_[cell].own, 1);
}

std::span<const CellStall> RowSegments::stalls(size_t cell) const {
  if (row_->detailed) return row_->cells[cell].stalls;
  return std::span(&whole_[cell].sync_point, row_->cells[cell].stall_ms > 0 ? 1 : 0);
}

void replay_row(std::vector<Lane>& lanes, std::vector<double>& clock) {
  using Key = SyncPointKey;
  std::map<Key, int> members;
  for (const Lane& lane : lanes) {
    Key last;
    bool first = true;
    for (const CellStall& s : lane.stalls) {
      const Key key = s.key(lane.rank);
      if (first || key != last) ++members[key];
      last = key, first = false;
    }
  }
  for (Lane& lane : lanes) {
    lane.begins.assign(lane.segments.size(), clock[lane.participant]);
    go_on(lane, 0, clock[lane.participant]);
  }
  for (bool progress = true; progress;) {
    progress = false;
    std::map<Key, std::vector<Lane*>> standing;
    for (Lane& lane : lanes)
      if (lane.next < lane.stalls.size()) standing[lane.stalls[lane.next].key(lane.rank)].push_back(&lane);
    for (auto& [key, present] : standing) {
      if (static_cast<int>(present.size()) < members[key]) continue;
      double arrival = 0;
      for (const Lane* lane : present) arrival = std::max(arrival, clock[lane->participant]);
      for (Lane* lane : present) {
        double& now = clock[lane->participant];
        now = arrival;
        // A pause may have cut the stall in two; all its parts are this sync point.
        while (lane->next < lane->stalls.size() && lane->stalls[lane->next].key(lane->rank) == key) {
          now += common_ms(lane->stalls[lane->next]);
          ++lane->next;
          go_on(*lane, lane->next, now);
        }
      }
      progress = true;
    }
  }
  // Sync points that never fit (lossy rows): the rest is one sync point at the end of the step.
  double latest = 0;
  bool stuck = false;
  for (Lane& lane : lanes) {
    double& now = clock[lane.participant];
    for (; lane.next < lane.stalls.size(); ++lane.next) {
      stuck = true;
      now += common_ms(lane.stalls[lane.next]);
      go_on(lane, lane.next + 1, now);
    }
    latest = std::max(latest, now);
  }
  if (stuck)
    for (const Lane& lane : lanes) clock[lane.participant] = latest;
}

}  // namespace stepscope
