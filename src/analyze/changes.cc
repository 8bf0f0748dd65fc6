#include "analyze/changes.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace stepscope {

namespace {

constexpr float kHalf = 0.5f;

struct RowShare {
  const StepRow* row = nullptr;
  LedgerMs each{};  // what every rank gets
};

}  // namespace

float worked_share(const Cell& cell, const LedgerMs& cut) {
  if (cell.gpu || !(cell.cpu_ms > 0)) return 1;
  float all = 0;
  for (const float ms : cut) all += std::max(0.0f, ms);
  const float idle = std::max(0.0f, cell.own_ms() - static_cast<float>(cell.cpu_ms));
  return all > 0 ? std::clamp(1 - idle / all, 0.0f, 1.0f) : 0;
}

Reduction shared_out(const Rows& rows, Reduction cut) {
  return [&rows, cut = std::move(cut), last = std::make_shared<RowShare>()](size_t i, const Cell& cell) {
    const StepRow& row = *rows.rows[i];
    if (last->row != &row) {
      *last = {&row, {}};
      for (const Cell& other : row.cells) {
        const LedgerMs theirs = cut(i, other);
        const float part = worked_share(other, theirs) / static_cast<float>(row.cells.size());
        for (const Category c : kLaunchPhases) last->each[index(c)] += part * theirs[index(c)];
      }
    }
    LedgerMs out = cut(i, cell);
    for (const Category c : kLaunchPhases) out[index(c)] -= last->each[index(c)];
    return out;
  };
}

Change half_as_often(const Reduction& cut) {
  const auto half = [cut](size_t i, const Cell& cell) {
    LedgerMs out = cut(i, cell);
    for (float& ms : out) ms *= kHalf;
    return out;
  };
  return {.usual = cut, .least = half, .why_wide = "the low end is doing it half as often"};
}

}  // namespace stepscope
