#include "analyze/work_pieces.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <utility>

namespace stepscope {

namespace {

constexpr size_t kMostParts = 8;
constexpr double kPartly = 0.1;
constexpr std::array kOrder = {
    Category::kStartup,      Category::kValidation, Category::kCheckpoint, Category::kLogging,  Category::kEpochStart,
    Category::kUserCode,     Category::kInputWait,  Category::kH2d,        Category::kCompile,  Category::kForward,
    Category::kUnattributed, Category::kHostPause,  Category::kBackward,   Category::kOptimizer};

bool waits_by_nature(Category c) {
  switch (c) {
    case Category::kInputWait:
    case Category::kH2d:
    case Category::kCheckpoint:
    case Category::kLogging:
    case Category::kEpochStart: return true;
    default: return false;
  }
}

// Where backward is cut, in ms of its own time; empty where its buckets do not tell.
std::vector<double> cuts_of(const Cell& cell, double backward_ms) {
  std::vector<double> cuts;
  for (float at : cell.bucket_ms) {
    if (!cuts.empty() && at < cuts.back()) return {};  // several backwards in the step
    cuts.push_back(at);
  }
  if (cuts.empty() || cuts.back() > backward_ms * 1.001) return {};
  std::vector<double> few;
  const size_t stride = (cuts.size() + kMostParts - 1) / kMostParts;
  for (size_t i = 0; i < cuts.size(); i += stride) few.push_back(cuts[i]);
  return few;
}

CellPieces in_order(const Cell& cell, std::span<const LedgerMs> segments) {
  constexpr size_t kBackward = index(Category::kBackward);
  CellPieces out;
  size_t backwards = 0;
  for (const LedgerMs& segment : segments) backwards += segment[kBackward] > 0;
  for (size_t s = 0; s < segments.size(); ++s) {
    for (Category category : kOrder) {
      const size_t c = index(category);
      const double ms = segments[s][c];
      if (!(ms > 0)) continue;
      PieceKey key{static_cast<uint16_t>(s), static_cast<uint16_t>(c), 0};
      double from = 0;
      if (c == kBackward && backwards == 1) {
        for (double at : cuts_of(cell, ms)) {
          at = std::min(at, ms);
          out.push_back({key, at - from, 0, 0});
          from = at, ++key.part;
        }
      }
      out.push_back({key, ms - from, 0, 0});
    }
  }
  return out;
}

void find_excess(std::vector<CellPieces>& cells) {
  struct Seen {
    double least = 0;
    int ranks = 0;
  };
  std::map<PieceKey, Seen> least;
  std::map<std::pair<uint16_t, uint16_t>, std::set<const CellPieces*>> having;  // by segment and category
  for (const CellPieces& pieces : cells)
    for (const WorkPiece& p : pieces) {
      having[{p.key.segment, p.key.category}].insert(&pieces);
      Seen& seen = least[p.key];
      seen.least = seen.ranks++ ? std::min(seen.least, p.ms) : p.ms;
    }
  for (CellPieces& pieces : cells)
    for (WorkPiece& p : pieces)
      if (const Seen& seen = least[p.key]; seen.ranks > 1)
        p.excess_ms = p.ms - seen.least;
      else if (cells.size() > 1 && having[{p.key.segment, p.key.category}].size() == 1)
        p.excess_ms = p.ms;  // no other rank has any of it
}

// Spreads `left` over the pieces in proportion to what `room` leaves of each; what does not fit stays in `left`.
void spread(CellPieces& pieces, double& left, const std::function<double(const WorkPiece&)>& room,
            const std::function<void(WorkPiece&, double)>& take) {
  double all = 0;
  for (const WorkPiece& p : pieces) all += room(p);
  if (all <= 0 || left <= 0) return;
  const double part = std::min(1.0, left / all);
  for (WorkPiece& p : pieces)
    if (const double r = room(p); r > 0) take(p, r * part), left -= r * part;
}

void find_idle(CellPieces& pieces, double cpu_ms) {
  const auto waits = [](const WorkPiece& p) {
    return waits_by_nature(static_cast<Category>(p.key.category)) ? p.busy_ms() : 0;
  };
  const auto idle = [](WorkPiece& p, double ms) { p.idle_ms = std::min(p.ms, p.idle_ms + ms); };
  double own_ms = 0;
  for (const WorkPiece& p : pieces) own_ms += p.ms;
  if (!(cpu_ms > 0)) {  // not told
    for (WorkPiece& p : pieces) p.unsure = p.excess_ms > kPartly * p.ms;
    double all = own_ms;
    return spread(pieces, all, waits, idle);
  }
  double left = std::clamp(own_ms - cpu_ms, 0.0, own_ms);
  const auto late = [](const WorkPiece& p) { return std::min(p.excess_ms, p.busy_ms()); };
  spread(pieces, left, [&](const WorkPiece& p) { return waits(p) > 0 ? late(p) : 0; }, idle);
  spread(pieces, left, late, idle);
  spread(pieces, left, waits, idle);
  spread(pieces, left, [](const WorkPiece& p) { return p.busy_ms(); }, idle);
  for (WorkPiece& p : pieces) p.unsure = p.idle_ms > kPartly * p.ms && p.busy_ms() > kPartly * p.ms;
}

void add_work(CellPieces& pieces, size_t category, double ms) {
  double all = 0;
  for (const WorkPiece& p : pieces)
    if (p.key.category == category) all += p.ms;
  if (!(all > 0)) return pieces.push_back({{0, static_cast<uint16_t>(category), 0}, ms, 0, 0});
  for (WorkPiece& p : pieces)
    if (p.key.category == category) p.ms += ms * p.ms / all;
}

}  // namespace

std::vector<CellPieces> pieces_of(const StepRow& row, const RowSegments& parts) {
  std::vector<CellPieces> cells;
  cells.reserve(row.cells.size());
  for (size_t k = 0; k < row.cells.size(); ++k) cells.push_back(in_order(row.cells[k], parts.segments(k)));
  find_excess(cells);
  for (size_t k = 0; k < row.cells.size(); ++k) find_idle(cells[k], row.cells[k].cpu_ms);
  return cells;
}

void take_away(CellPieces& pieces, const LedgerMs& cut) {
  for (size_t c = 0; c < kCategoryCount; ++c) {
    double left = cut[c];
    if (left < 0) add_work(pieces, c, -left);
    if (!(left > 0)) continue;
    const auto shorten = [](WorkPiece& p, double ms) {
      p.ms -= ms;
      p.idle_ms = std::max(0.0, p.idle_ms - ms);
      p.excess_ms = std::max(0.0, p.excess_ms - ms);
    };
    spread(
        pieces, left, [c](const WorkPiece& p) { return p.key.category == c ? std::min(p.excess_ms, p.ms) : 0; },
        shorten);
    spread(pieces, left, [c](const WorkPiece& p) { return p.key.category == c ? p.ms : 0; }, shorten);
  }
}

}  // namespace stepscope
