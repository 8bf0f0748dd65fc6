#include "diagnose/unnamed_work.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "analyze/robust.h"

namespace stepscope {

namespace {

constexpr Category kParts[] = {Category::kUnattributed, Category::kUserCode, Category::kLogging};

double all_ms(const Cell& cell) {
  double sum = 0;
  for (const Category c : kParts) sum += cell.ms[index(c)];
  return sum;
}

}  // namespace

UnnamedWork::UnnamedWork(const RuleInput& in)
    : least_ms_(in.limits->between_event_ms), factor_(in.limits->pause_factor) {
  std::map<int, std::vector<double>> by_rank;
  for (const StepRow* row : in.rows.rows)
    for (const Cell& cell : row->cells) by_rank[cell.rank].push_back(all_ms(cell));
  for (auto& [rank, list] : by_rank) usual_ms_[rank] = median(std::move(list));
}

double UnnamedWork::beyond_ms(const Cell& cell) const {
  const double ms = all_ms(cell), usual_ms = usual_ms_.at(cell.rank);
  return ms > std::max(least_ms_, factor_ * usual_ms) ? ms - usual_ms : 0;
}

void UnnamedWork::cut(const Cell& cell, LedgerMs& from) const {
  const double share = beyond_ms(cell) / std::max(all_ms(cell), 1e-9);
  for (const Category c : kParts) from[index(c)] += static_cast<float>(share) * cell.ms[index(c)];
}

bool UnnamedWork::comes_with(const RuleInput& in, Category category) const {
  double events = 0, with = 0, alone = 0;
  for (const StepRow* row : in.rows.rows) {
    const auto any = [&](auto&& has) { return std::any_of(row->cells.begin(), row->cells.end(), has); };
    const bool event = any([&](const Cell& cell) { return beyond_ms(cell) > 0; });
    const bool named = any([&](const Cell& cell) { return cell.ms[index(category)] > 0; });
    events += event, with += event && named, alone += named && !event;
  }
  const double share = in.limits->between_around_share;
  return events >= in.limits->between_min_repeats && with >= share * events && alone <= (1 - share) * events;
}

}  // namespace stepscope
