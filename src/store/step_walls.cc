#include "store/step_walls.h"

#include <algorithm>
#include <cmath>

namespace stepscope::store {
namespace {

constexpr size_t kMaxWaiting = 65536;
constexpr size_t kLinesPerCheck = 256;
constexpr uint32_t kMaxStride = 1u << 30;

int64_t us(float ms) {
  return std::isfinite(ms) ? std::llround(std::clamp(static_cast<double>(ms) * 1e3, -1e15, 1e15)) : 0;
}

float middle(std::vector<float>& values) {
  if (values.empty()) return 0;
  const auto at = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

StepWall read(const Statement& s) {
  StepWall w;
  w.attempt = static_cast<int32_t>(s.integer(0));
  w.step = static_cast<uint64_t>(s.integer(1));
  w.stride = static_cast<uint32_t>(s.integer(2));
  w.end_us = s.integer(3);
  w.ranks = static_cast<int32_t>(s.integer(4));
  w.wall_us_p50 = s.integer(5), w.wall_us_max = s.integer(6);
  w.own_us_p50 = s.integer(7), w.own_us_max = s.integer(8);
  w.own_rank = s.is_null(9) ? -1 : static_cast<int32_t>(s.integer(9));
  w.caused_us = s.integer(10);
  w.caused_rank = s.is_null(11) ? -1 : static_cast<int32_t>(s.integer(11));
  w.tags = static_cast<uint32_t>(s.integer(12));
  return w;
}

}  // namespace

StepWall wall_of(int32_t attempt, const StepRow& row, int64_t start_ns) {
  StepWall w{.attempt = attempt, .step = row.step, .tags = row.tags};
  std::vector<float> wall, own;
  int64_t end_ns = 0;
  float most_own = -1, most_caused = 0;
  for (const Cell& cell : row.cells) {
    ++w.ranks;
    end_ns = std::max(end_ns, cell.end_ns);
    wall.push_back(cell.wall_ms);
    own.push_back(cell.own_ms());
    if (own.back() > most_own) most_own = own.back(), w.own_rank = cell.rank;
    if (cell.caused_ms > most_caused) most_caused = cell.caused_ms, w.caused_rank = cell.rank;
  }
  w.end_us = end_ns > start_ns ? (end_ns - start_ns) / 1000 : 0;
  w.wall_us_max = us(row.wall_ms);
  w.wall_us_p50 = us(middle(wall));
  w.own_us_p50 = us(middle(own));
  w.own_us_max = us(std::max(most_own, 0.0f));
  w.caused_us = us(most_caused);
  return w;
}

StepWall merged(const StepWall& first, const StepWall& second) {
  StepWall out = first;
  out.stride = std::min(std::max(first.stride, second.stride), kMaxStride / 2) * 2;
  out.end_us = std::max(first.end_us, second.end_us);
  out.wall_us_max = std::max(first.wall_us_max, second.wall_us_max);
  if (second.own_us_max > first.own_us_max) out.own_us_max = second.own_us_max, out.own_rank = second.own_rank;
  if (second.caused_us > first.caused_us) out.caused_us = second.caused_us, out.caused_rank = second.caused_rank;
  out.tags |= second.tags;
  return out;
}

void StepWalls::add(const StepWall& wall) {
  if (waiting_.size() < kMaxWaiting) waiting_.push_back(wall);
}

static Status insert_all(Database& db, const std::vector<StepWall>& walls) {
  auto insert = db.prepare("INSERT OR REPLACE INTO step_wall VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  if (!insert) return std::unexpected(insert.error());
  for (const StepWall& w : walls) {
    if (!insert
             ->bind(w.attempt, w.step, w.stride, w.end_us, w.ranks, w.wall_us_p50, w.wall_us_max, w.own_us_p50,
                    w.own_us_max, null_if_negative(w.own_rank), w.caused_us, null_if_negative(w.caused_rank), w.tags)
             .run()) {
      return std::unexpected(db.last_error());
    }
  }
  return {};
}

Status StepWalls::thin_oldest(Database& db, uint32_t stride) {
  auto select = db.prepare("SELECT * FROM step_wall WHERE stride = ? ORDER BY attempt, step LIMIT ?");
  auto erase = db.prepare("DELETE FROM step_wall WHERE attempt = ? AND step = ?");
  if (!select || !erase) return std::unexpected(db.last_error());
  std::vector<StepWall> old, kept;
  select->bind(stride, (stride == 1 ? kFullRows : kThinRows) / 2);
  while (select->step() == Statement::Step::kRow) old.push_back(read(*select));
  for (size_t i = 0; i < old.size(); ++i) {
    if (!erase->bind(old[i].attempt, old[i].step).run()) return std::unexpected(db.last_error());
    const bool pair = i % 2 == 1 && kept.back().attempt == old[i].attempt;
    if (pair)
      kept.back() = merged(kept.back(), old[i]);
    else
      kept.push_back(old[i]);
    kept.back().stride = std::min(stride, kMaxStride / 2) * 2;
  }
  return insert_all(db, kept);
}

void StepWalls::committed() {
  unchecked_ = unchecked_ < kLinesPerCheck ? unchecked_ + waiting_.size() : waiting_.size();
  waiting_.clear();
}

Status StepWalls::write(Database& db) {
  if (waiting_.empty()) return {};
  if (Status status = insert_all(db, waiting_); !status) return status;
  if (unchecked_ < kLinesPerCheck) return {};
  // One pass over the strides that are too many; a pass may fill the next one.
  auto count = db.prepare(
      "SELECT stride FROM step_wall GROUP BY stride HAVING count(*) > iif(stride = 1, ?, ?) ORDER BY stride");
  if (!count) return std::unexpected(count.error());
  std::vector<uint32_t> strides;
  count->bind(kFullRows, kThinRows);
  while (count->step() == Statement::Step::kRow) strides.push_back(static_cast<uint32_t>(count->integer(0)));
  for (uint32_t stride : strides) {
    if (stride >= kMaxStride) continue;
    if (Status status = thin_oldest(db, stride); !status) return status;
  }
  return {};
}

}  // namespace stepscope::store
