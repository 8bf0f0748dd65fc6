#include "analyze/whatif.h"

#include <algorithm>
#include <map>

namespace stepscope {

namespace {

// Own time of each segment after the reduction, which is spread over segments as the category is.
std::vector<float> reduced_segments(const Cell& cell, const LedgerMs* reduction) {
  std::vector<float> out;
  out.reserve(cell.segments.size());
  for (const LedgerMs& segment : cell.segments) {
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
  std::vector<float> segments;
  const Cell* cell = nullptr;
  size_t next = 0;  // next stall
};

// One step of all ranks; `clock` advances. Meetings happen when every member that still has it ahead stands at it.
void replay_row(std::vector<Lane>& lanes, std::vector<double>& clock) {
  using Key = std::pair<uint64_t, uint64_t>;
  std::map<Key, int> members;
  for (const Lane& lane : lanes)
    if (lane.cell) {
      Key last{0, 0};
      bool first = true;
      for (const CellStall& s : lane.cell->stalls) {
        const Key key{s.group, s.sequence};
        if (first || key != last) ++members[key];
        last = key, first = false;
      }
    }
  for (size_t r = 0; r < lanes.size(); ++r)
    if (lanes[r].cell && !lanes[r].segments.empty()) clock[r] += lanes[r].segments[0];
  for (bool progress = true; progress;) {
    progress = false;
    std::map<Key, std::vector<size_t>> standing;
    for (size_t r = 0; r < lanes.size(); ++r)
      if (lanes[r].cell && lanes[r].next < lanes[r].cell->stalls.size()) {
        const CellStall& s = lanes[r].cell->stalls[lanes[r].next];
        standing[{s.group, s.sequence}].push_back(r);
      }
    for (auto& [key, present] : standing) {
      if (static_cast<int>(present.size()) < members[key]) continue;
      double arrival = 0;
      for (size_t r : present) arrival = std::max(arrival, clock[r]);
      for (size_t r : present) {
        Lane& lane = lanes[r];
        clock[r] = arrival;
        // A pause may have cut the stall in two; all its parts are this meeting.
        while (lane.next < lane.cell->stalls.size() && Key{lane.cell->stalls[lane.next].group, lane.cell->stalls[lane.next].sequence} == key) {
          clock[r] += lane.cell->stalls[lane.next].transfer_ms;
          ++lane.next;
          if (lane.next < lane.segments.size()) clock[r] += lane.segments[lane.next];
        }
      }
      progress = true;
    }
  }
  // Meetings that never fit (lossy rows): the rest is one meeting at the end of the step.
  double latest = 0;
  bool stuck = false;
  for (size_t r = 0; r < lanes.size(); ++r) {
    Lane& lane = lanes[r];
    if (!lane.cell) continue;
    for (; lane.next < lane.cell->stalls.size(); ++lane.next) {
      stuck = true;
      clock[r] += lane.cell->stalls[lane.next].transfer_ms;
      if (lane.next + 1 < lane.segments.size()) clock[r] += lane.segments[lane.next + 1];
    }
    latest = std::max(latest, clock[r]);
  }
  if (stuck)
    for (size_t r = 0; r < lanes.size(); ++r)
      if (lanes[r].cell) clock[r] = latest;
}

}  // namespace

double replay_ms(const Rows& rows, const Reduction& reduce) {
  std::vector<double> clock;
  double total = 0, before = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const StepRow& row = *rows.rows[i];
    if (clock.size() < row.cells.size()) clock.resize(row.cells.size(), before);
    std::vector<Lane> lanes(row.cells.size());
    for (size_t r = 0; r < row.cells.size(); ++r) {
      const Cell& cell = row.cells[r];
      if (!cell.present) continue;
      lanes[r].cell = &cell;
      if (reduce) {
        const LedgerMs reduction = reduce(i, static_cast<int>(r));
        lanes[r].segments = reduced_segments(cell, &reduction);
      } else {
        lanes[r].segments = reduced_segments(cell, nullptr);
      }
    }
    replay_row(lanes, clock);
    double now = before;
    for (size_t r = 0; r < row.cells.size(); ++r)
      if (row.cells[r].present) now = std::max(now, clock[r]);
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
