#include "analyze/whatif.h"

#include <algorithm>
#include <map>
#include <span>

namespace stepscope {

namespace {

// Own time of each segment after the reduction, which is spread over segments as the category is.
std::vector<float> reduced_segments(const Cell& cell, std::span<const LedgerMs> segments, const LedgerMs* reduction) {
  std::vector<float> out;
  out.reserve(segments.size());
  for (const LedgerMs& segment : segments) {
    float ms = 0;
    for (size_t c = 0; c < kCategoryCount; ++c) {
      float part = segment[c];
      if (reduction && (*reduction)[c] > 0 && cell.ms[c] > 0) part *= std::max(0.0f, 1 - (*reduction)[c] / cell.ms[c]);
      ms += part;
    }
    out.push_back(ms);
  }
  return out;
}

// What all who stand at a sync point wait for together; where not all members were seen it is kept as it was.
float common_ms(const CellStall& stall) { return stall.transfer_ms + stall.unresolved_ms; }

struct Lane {
  int rank = -1;
  size_t participant = 0;  // of its clock
  std::vector<float> segments;
  std::span<const CellStall> stalls;
  size_t next = 0;  // next stall
};

// What is left of a cell without detail: its own time, then one sync point of all that stalled.
struct Whole {
  LedgerMs own;
  CellStall sync_point;
  explicit Whole(const Cell& cell)
      : own(cell.ms), sync_point{kSeenGroup,          0,
                                 cell.stall_ms,       cell.ms[index(Category::kCommTransfer)],
                                 Category::kBackward, cell.ms[index(Category::kUnresolved)]} {
    for (size_t c = 0; c < kCategoryCount; ++c)
      if (is_of_stalls(static_cast<Category>(c))) own[c] = 0;
  }
};

// One step of all ranks; `clock` advances. Sync points happen when every member that still has it ahead stands at it.
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
  for (const Lane& lane : lanes)
    if (!lane.segments.empty()) clock[lane.participant] += lane.segments[0];
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
          if (lane->next < lane->segments.size()) now += lane->segments[lane->next];
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
      if (lane.next + 1 < lane.segments.size()) now += lane.segments[lane.next + 1];
    }
    latest = std::max(latest, now);
  }
  if (stuck)
    for (const Lane& lane : lanes) clock[lane.participant] = latest;
}

}  // namespace

Reduction removal_of(Category category) {
  return removal_of(category, [c = index(category)](size_t, const Cell& cell) { return cell.ms[c]; });
}

Reduction removal_of(Category category, std::function<double(size_t, const Cell&)> ms) {
  return [c = index(category), ms = std::move(ms)](size_t row, const Cell& cell) {
    LedgerMs cut{};
    cut[c] = static_cast<float>(ms(row, cell));
    return cut;
  };
}

double replay_ms(const Rows& rows, const Reduction& reduce) {
  const std::vector<int> ranks = rows.seen();
  std::vector<double> clock(ranks.size(), 0);
  double total = 0, before = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const StepRow& row = *rows.rows[i];
    std::vector<Lane> lanes;
    std::vector<Whole> plain;
    lanes.reserve(row.cells.size());
    if (!row.detailed) plain.reserve(row.cells.size());
    for (const Cell& cell : row.cells) {
      std::span<const LedgerMs> segments = cell.segments;
      std::span<const CellStall> stalls = cell.stalls;
      if (!row.detailed) {
        const Whole& whole = plain.emplace_back(cell);
        segments = std::span(&whole.own, 1);
        stalls = std::span(&whole.sync_point, cell.stall_ms > 0 ? 1 : 0);
      }
      LedgerMs reduction{};
      if (reduce) reduction = reduce(i, cell);
      const auto participant = std::lower_bound(ranks.begin(), ranks.end(), cell.rank) - ranks.begin();
      lanes.push_back({cell.rank, static_cast<size_t>(participant),
                       reduced_segments(cell, segments, reduce ? &reduction : nullptr), stalls});
    }
    replay_row(lanes, clock);
    double now = before;
    for (const Lane& lane : lanes) now = std::max(now, clock[lane.participant]);
    total += (now - before) * rows.weights[i];
    before = now;
  }
  return total;
}

namespace {

// Share of the wall time in steps in which somebody waited for ranks that were not seen.
double half_seen_share(const Rows& rows) {
  double half_ms = 0, all_ms = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const StepRow& row = *rows.rows[i];
    const double ms = static_cast<double>(row.wall_ms) * rows.weights[i];
    all_ms += ms;
    if (std::any_of(row.cells.begin(), row.cells.end(),
                    [](const Cell& c) { return c.ms[index(Category::kUnresolved)] > 0; }))
      half_ms += ms;
  }
  return all_ms > 0 ? half_ms / all_ms : 0;
}

}  // namespace

std::optional<double> saved_share(const Rows& rows, const Reduction& reduce) {
  if (half_seen_share(rows) > kMostHalfSeenShare) return std::nullopt;
  const double base = replay_ms(rows, nullptr);
  if (base <= 0) return 0;
  return std::max(0.0, 1 - replay_ms(rows, reduce) / base);
}

}  // namespace stepscope
