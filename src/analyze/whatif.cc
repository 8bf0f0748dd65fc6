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
      if (reduction && (*reduction)[c] > 0 && cell.ms[c] > 0)
        part *= std::max(0.0f, 1 - (*reduction)[c] / cell.ms[c]);
      ms += part;
    }
    out.push_back(ms);
  }
  return out;
}

struct Lane {
  size_t seat = 0;  // of the rank's clock
  std::vector<float> segments;
  std::span<const CellStall> stalls;
  size_t next = 0;  // next stall
};

// What is left of a cell without detail: its own time, then one meeting of all that stalled.
struct Whole {
  LedgerMs own;
  CellStall meeting;
  explicit Whole(const Cell& cell) : own(cell.ms), meeting{0, ~uint64_t{0}, cell.stall_ms, cell.ms[index(Category::kCommTransfer)], Category::kBackward} {
    own[index(Category::kCommTransfer)] = own[index(Category::kStragglerWait)] = 0;
  }
};

// One step of all ranks; `clock` advances. Meetings happen when every member that still has it ahead stands at it.
void replay_row(std::vector<Lane>& lanes, std::vector<double>& clock) {
  using Key = std::pair<uint64_t, uint64_t>;
  std::map<Key, int> members;
  for (const Lane& lane : lanes) {
    Key last{0, 0};
    bool first = true;
    for (const CellStall& s : lane.stalls) {
      const Key key{s.group, s.sequence};
      if (first || key != last) ++members[key];
      last = key, first = false;
    }
  }
  for (const Lane& lane : lanes)
    if (!lane.segments.empty()) clock[lane.seat] += lane.segments[0];
  for (bool progress = true; progress;) {
    progress = false;
    std::map<Key, std::vector<Lane*>> standing;
    for (Lane& lane : lanes)
      if (lane.next < lane.stalls.size()) standing[{lane.stalls[lane.next].group, lane.stalls[lane.next].sequence}].push_back(&lane);
    for (auto& [key, present] : standing) {
      if (static_cast<int>(present.size()) < members[key]) continue;
      double arrival = 0;
      for (const Lane* lane : present) arrival = std::max(arrival, clock[lane->seat]);
      for (Lane* lane : present) {
        double& now = clock[lane->seat];
        now = arrival;
        // A pause may have cut the stall in two; all its parts are this meeting.
        while (lane->next < lane->stalls.size() && Key{lane->stalls[lane->next].group, lane->stalls[lane->next].sequence} == key) {
          now += lane->stalls[lane->next].transfer_ms;
          ++lane->next;
          if (lane->next < lane->segments.size()) now += lane->segments[lane->next];
        }
      }
      progress = true;
    }
  }
  // Meetings that never fit (lossy rows): the rest is one meeting at the end of the step.
  double latest = 0;
  bool stuck = false;
  for (Lane& lane : lanes) {
    double& now = clock[lane.seat];
    for (; lane.next < lane.stalls.size(); ++lane.next) {
      stuck = true;
      now += lane.stalls[lane.next].transfer_ms;
      if (lane.next + 1 < lane.segments.size()) now += lane.segments[lane.next + 1];
    }
    latest = std::max(latest, now);
  }
  if (stuck)
    for (const Lane& lane : lanes) clock[lane.seat] = latest;
}

}  // namespace

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
        stalls = std::span(&whole.meeting, cell.stall_ms > 0 ? 1 : 0);
      }
      LedgerMs reduction{};
      if (reduce) reduction = reduce(i, cell);
      const auto seat = std::lower_bound(ranks.begin(), ranks.end(), cell.rank) - ranks.begin();
      lanes.push_back({static_cast<size_t>(seat), reduced_segments(cell, segments, reduce ? &reduction : nullptr), stalls});
    }
    replay_row(lanes, clock);
    double now = before;
    for (const Lane& lane : lanes) now = std::max(now, clock[lane.seat]);
    total += (now - before) * rows.weights[i];
    before = now;
  }
  return total;
}

double saved_share(const Rows& rows, const Reduction& reduce) {
  const double base = replay_ms(rows, nullptr);
  if (base <= 0) return 0;
  return std::max(0.0, 1 - replay_ms(rows, reduce) / base);
}

}  // namespace stepscope
