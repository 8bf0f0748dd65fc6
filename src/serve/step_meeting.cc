#include "serve/step_meeting.h"

#include <algorithm>

namespace stepscope {
namespace {

constexpr Category kBefore[] = {Category::kEpochStart, Category::kInputWait, Category::kH2d, Category::kForward,
                                Category::kBackward};

float of(const Cell& cell, Category category) { return cell.ms[index(category)]; }

}  // namespace

std::optional<StepMeeting> meeting_of(const StepRow& row) {
  if (row.cells.size() < 2) return std::nullopt;
  StepMeeting out;
  float earliest_end_ms = 0, tail_ms = 0, waited_ms = 0;
  for (const Cell& cell : row.cells) {
    if (of(cell, Category::kUnresolved) > 0) return std::nullopt;
    float arrival_ms = 0;
    for (const Category c : kBefore) arrival_ms += of(cell, c);
    const float wait_ms = of(cell, Category::kStragglerWait);
    const float end_ms = arrival_ms + wait_ms + of(cell, Category::kCommTransfer);
    const bool first = &cell == &row.cells.front();
    if (first || arrival_ms < out.first_ms) out.first_ms = arrival_ms;
    if (first || arrival_ms > out.last_ms) out.last_ms = arrival_ms, out.last_rank = cell.rank;
    if (first || end_ms < earliest_end_ms) earliest_end_ms = end_ms;
    if (first || cell.wall_ms - end_ms > tail_ms) tail_ms = cell.wall_ms - end_ms, out.tail_rank = cell.rank;
    out.end_ms = std::max(out.end_ms, end_ms);
    waited_ms = std::max(waited_ms, end_ms - arrival_ms);
  }
  if (waited_ms <= 0 || out.end_ms - earliest_end_ms > kTogether * row.wall_ms) return std::nullopt;
  return out;
}

}  // namespace stepscope
