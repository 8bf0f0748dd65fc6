#include "analyze/device_memory.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "analyze/batch_size.h"
#include "analyze/correlation.h"
#include "analyze/growth.h"
#include "analyze/robust.h"

namespace stepscope {
namespace {

constexpr size_t kFewReadings = 12;
constexpr double kLeastVariation = 0.05;  // of the size, between its 5th and 95th percentile
constexpr double kRunTogether = 0.95;     // correlation of size and step from which they cannot be told apart
constexpr size_t kColumns = 4;            // constant, size, its square, step

using Column = std::vector<double>;

bool varies(const Column& size) {
  if (size.size() < kFewReadings || *std::min_element(size.begin(), size.end()) <= 0) return false;
  return quantile(size, 0.95) - quantile(size, 0.05) >= kLeastVariation * median(size);
}

// The first of the sizes that is known throughout and varies.
void take_size(MemoryTrack& track, const std::vector<const Cell*>& cells) {
  for (const BatchSize& batch : kBatchSizes) {
    Column size;
    for (const Cell* cell : cells) size.push_back(cell->*batch.size);
    if (!varies(size)) continue;
    track.size = std::move(size);
    track.unit = batch.unit;
    return;
  }
}

template <class Pick>
MemoryTrack track_of(const Rows& rows, int rank, double begin_step, bool held, Pick pick) {
  MemoryTrack track;
  track.rank = rank;
  track.held = held;
  std::vector<const Cell*> cells;
  for (const StepRow* row : rows.rows) {
    const Cell* found = row->step < begin_step ? nullptr : row->find(rank);
    if (!found) continue;
    const Cell& cell = *found;
    const double bytes = pick(cell);
    if (bytes < 0) continue;
    cells.push_back(&cell);
    track.step.push_back(row->step);
    track.seconds.push_back(static_cast<double>(cell.end_ns - cells.front()->end_ns) * 1e-9);
    track.bytes.push_back(bytes);
  }
  take_size(track, cells);
  return track;
}

// Solves the symmetric system by elimination with pivoting; columns without a pivot get 0.
std::array<double, kColumns> solve(std::array<std::array<double, kColumns + 1>, kColumns> m, size_t n) {
  std::array<double, kColumns> x{};
  std::array<bool, kColumns> solved{};
  for (size_t c = 0; c < n; ++c) {
    size_t best = c;
    for (size_t r = c + 1; r < n; ++r)
      if (std::abs(m[r][c]) > std::abs(m[best][c])) best = r;
    std::swap(m[c], m[best]);
    if (std::abs(m[c][c]) < 1e-9) continue;
    solved[c] = true;
    for (size_t r = 0; r < n; ++r) {
      if (r == c) continue;
      const double f = m[r][c] / m[c][c];
      for (size_t k = c; k <= kColumns; ++k) m[r][k] -= f * m[c][k];
    }
  }
  for (size_t c = 0; c < n; ++c)
    if (solved[c]) x[c] = m[c][kColumns] / m[c][c];
  return x;
}

// Scaled to zero mean and unit spread, so that one tolerance fits all columns.
Column scaled(Column v) {
  const double m = mean(v);
  double spread = 0;
  for (double& x : v) x -= m, spread += x * x;
  spread = std::sqrt(spread / static_cast<double>(v.size()));
  for (double& x : v) x = spread > 0 ? x / spread : 0;
  return v;
}

// What the polynomial in the size contributes to each point, around its mean.
Column explained(const MemoryTrack& track, bool with_step) {
  std::vector<Column> columns = {Column(track.points(), 1.0), scaled(track.size)};
  Column square = columns[1];
  for (double& x : square) x *= x;
  columns.push_back(scaled(square));
  if (with_step) columns.push_back(scaled(track.step));
  std::array<std::array<double, kColumns + 1>, kColumns> m{};
  for (size_t a = 0; a < columns.size(); ++a) {
    for (size_t b = 0; b < columns.size(); ++b)
      m[a][b] = std::inner_product(columns[a].begin(), columns[a].end(), columns[b].begin(), 0.0) /
                static_cast<double>(track.points());
    m[a][kColumns] = std::inner_product(columns[a].begin(), columns[a].end(), track.bytes.begin(), 0.0) /
                     static_cast<double>(track.points());
  }
  const auto x = solve(m, columns.size());
  Column out(track.points());
  for (size_t i = 0; i < out.size(); ++i) out[i] = x[1] * columns[1][i] + x[2] * columns[2][i];
  return out;
}

}  // namespace

MemoryTrack held_track(const Rows& rows, int rank, double begin_step) {
  return track_of(rows, rank, begin_step, true, [](const Cell& cell) { return cell.held_bytes; });
}

MemoryTrack top_track(const Rows& rows, int rank, double begin_step) {
  // A reading that equals what is held is that reading: there was none near the top.
  return track_of(rows, rank, begin_step, false,
                  [](const Cell& cell) { return cell.allocated_bytes == cell.held_bytes ? -1 : cell.allocated_bytes; });
}

MemoryTrack growth_track(const Rows& rows, int rank, double begin_step) {
  MemoryTrack held = held_track(rows, rank, begin_step);
  MemoryTrack top = top_track(rows, rank, begin_step);
  return held.points() >= kFewReadings || held.points() >= top.points() ? held : top;
}

double size_correlation(const MemoryTrack& track) {
  return track.size.empty() ? 0 : correlation(track.size, track.bytes);
}

double bytes_per_unit(const MemoryTrack& track) {
  if (track.size.empty()) return 0;
  std::vector<size_t> order(track.points());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return track.size[a] < track.size[b]; });
  Column size, bytes;
  for (size_t i : order) size.push_back(track.size[i]), bytes.push_back(track.bytes[i]);
  return theil_sen_slope(size, bytes);
}

MemoryTrack without_size(const MemoryTrack& track) {
  MemoryTrack rest = track;
  if (track.size.empty()) return rest;
  const bool together = std::abs(correlation(track.size, track.step)) >= kRunTogether;
  const Column part = explained(track, !together);
  const auto [low, high] = std::minmax_element(part.begin(), part.end());
  const double ratio = quantile(track.size, 0.95) / quantile(track.size, 0.05);
  if (*high - *low > (ratio * ratio - 1) * quantile(track.bytes, 0.05) * 1.25) return rest;
  for (size_t i = 0; i < rest.points(); ++i) rest.bytes[i] -= part[i];
  return rest;
}

}  // namespace stepscope
