#include "analyze/late_leaving.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "analyze/sync_points.h"

namespace stepscope {

namespace {

float sum_of(const LedgerMs& ms) { return std::accumulate(ms.begin(), ms.end(), 0.0f); }

// The end of a stall that was no waiting becomes own time behind it.
void shorten(Cell& cell, CellStall& stall, float ms) {
  const size_t phase = index(stall.phase);
  const auto at = static_cast<size_t>(&stall - cell.stalls.data());
  stall.stall_ms -= ms;
  cell.stall_ms -= ms;
  cell.segments[at + 1][phase] += ms;
  cell.ms[phase] += ms;
  cell.host_ms[phase] += ms;
  cell.host_ms[index(Category::kCommTransfer)] -= ms;
}

// One rank on its way through the row.
struct Walk {
  Cell* cell;
  std::optional<SyncPointKey> left;  // the newest sync point; none = not known
  float since_ms = 0, busy_ms = 0;   // since then; on a core in stalls
  size_t next = 0;                   // segment

  // Up to the stall at `to`: segments, and other stalls in between.
  float lateness_ms(size_t to) {
    for (; next <= to; ++next) {
      since_ms += sum_of(cell->segments[next]);
      if (next < to) since_ms += cell->stalls[next].stall_ms;
    }
    return since_ms;
  }
};

bool is_whole(const Cell& cell) { return !cell.gpu && cell.segments.size() == cell.stalls.size() + 1; }

}  // namespace

void LateLeaving::settle(StepRow& row) {
  if (!std::all_of(row.cells.begin(), row.cells.end(), is_whole)) {
    ranks_.clear();
    return;
  }
  std::vector<Walk> walks;
  bool any = false;
  for (Cell& cell : row.cells) {
    Walk walk{.cell = &cell, .left = {}};
    if (const auto known = ranks_.find(cell.rank); known != ranks_.end() && known->second.row + 1 == row.step)
      walk.left = known->second.key, walk.since_ms = known->second.ms;
    if (cell.cpu_ms > 0)
      walk.busy_ms = std::clamp(static_cast<float>(cell.cpu_ms) - cell.own_ms(), 0.0f, cell.stall_ms);
    any |= walk.busy_ms >= kLeastMs;
    walks.push_back(walk);
  }
  const std::vector<SyncPoint> points = any ? sync_points_of(row) : std::vector<SyncPoint>();
  for (const SyncPoint& point : points) {
    const SyncPoint::Participant& last = point.last();
    const auto place = [&](const SyncPoint::Participant& p) {
      return static_cast<size_t>(p.parts.front() - row.cells[static_cast<size_t>(p.at)].stalls.data());
    };
    for (const SyncPoint::Participant& p : point.participants) walks[static_cast<size_t>(p.at)].lateness_ms(place(p));
    const Walk of_last = walks[static_cast<size_t>(last.at)];
    for (const SyncPoint::Participant& p : point.participants) {
      Walk& walk = walks[static_cast<size_t>(p.at)];
      const float wait_ms = p.stall_ms - last.stall_ms;
      float late_ms = 0;
      if (walk.left && walk.left == of_last.left)
        late_ms = std::max(0.0f, wait_ms - std::max(0.0f, of_last.since_ms - walk.since_ms));
      CellStall& end = *p.parts.back();
      const float hidden_ms = std::min({late_ms, walk.busy_ms, end.stall_ms});
      if (hidden_ms >= kLeastMs && hidden_ms >= kLeastShare * wait_ms) {
        shorten(*walk.cell, end, hidden_ms);
        walk.busy_ms -= hidden_ms, late_ms -= hidden_ms;
      }
      walk.left = point.key, walk.since_ms = late_ms,
      walk.next = static_cast<size_t>(&end - walk.cell->stalls.data()) + 1;
    }
  }
  for (Walk& walk : walks) {
    if (points.empty() && !walk.cell->stalls.empty()) {
      walk.left = walk.cell->stalls.back().key(walk.cell->rank);
      walk.since_ms = 0, walk.next = walk.cell->stalls.size();
    }
    walk.lateness_ms(walk.cell->stalls.size());
    if (walk.left) ranks_[walk.cell->rank] = {*walk.left, row.step, walk.since_ms};
  }
}

}  // namespace stepscope
