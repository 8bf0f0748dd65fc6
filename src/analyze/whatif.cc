#include "analyze/whatif.h"

#include <algorithm>
#include <numeric>
#include <span>

#include "analyze/replay_row.h"

namespace stepscope {

namespace {

// Own time of each segment after the reduction, which is spread over segments as the category is; what is added to a
// category that the cell has nothing of comes first.
std::vector<float> reduced_segments(const Cell& cell, std::span<const LedgerMs> segments, const LedgerMs* reduction) {
  std::vector<float> out;
  out.reserve(segments.size());
  for (const LedgerMs& segment : segments) {
    float ms = 0;
    for (size_t c = 0; c < kCategoryCount; ++c) {
      float part = segment[c];
      if (reduction && cell.ms[c] > 0) part *= std::max(0.0f, 1 - (*reduction)[c] / cell.ms[c]);
      ms += part;
    }
    out.push_back(ms);
  }
  if (reduction && !out.empty())
    for (size_t c = 0; c < kCategoryCount; ++c)
      if (!(cell.ms[c] > 0)) out.front() += std::max(0.0f, -(*reduction)[c]);
  return out;
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

std::vector<double> replayed_rows_ms(const Rows& rows, const Reduction& reduce) {
  const std::vector<int> ranks = rows.seen();
  std::vector<double> clock(ranks.size(), 0), out;
  out.reserve(rows.size());
  double before = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const StepRow& row = *rows.rows[i];
    const RowSegments parts(row);
    std::vector<Lane> lanes;
    lanes.reserve(row.cells.size());
    for (size_t k = 0; k < row.cells.size(); ++k) {
      const Cell& cell = row.cells[k];
      LedgerMs reduction{};
      if (reduce) reduction = reduce(i, cell);
      const auto participant = std::lower_bound(ranks.begin(), ranks.end(), cell.rank) - ranks.begin();
      lanes.push_back({cell.rank, static_cast<size_t>(participant),
                       reduced_segments(cell, parts.segments(k), reduce ? &reduction : nullptr), parts.stalls(k)});
    }
    replay_row(lanes, clock);
    double now = before;
    for (const Lane& lane : lanes) now = std::max(now, clock[lane.participant]);
    out.push_back((now - before) * rows.weights[i]);
    before = now;
  }
  return out;
}

double replay_ms(const Rows& rows, const Reduction& reduce) {
  const std::vector<double> each = replayed_rows_ms(rows, reduce);
  return std::accumulate(each.begin(), each.end(), 0.0);
}

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

std::optional<double> saved_share(const Rows& rows, const Reduction& reduce) {
  if (half_seen_share(rows) > kMostHalfSeenShare) return std::nullopt;
  const double base = replay_ms(rows, nullptr);
  if (base <= 0) return 0;
  return std::max(0.0, 1 - replay_ms(rows, reduce) / base);
}

}  // namespace stepscope
