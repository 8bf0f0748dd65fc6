#include "analyze/numerics.h"

#include <algorithm>
#include <cmath>

namespace stepscope {

namespace {

constexpr uint32_t kNotFinite = kLossNotFinite | kGradNormNotFinite;

bool was_skipped(const Cell& cell) { return (cell.tags & kTagSkipped) != 0; }

bool finite(const std::optional<double>& value) { return value && std::isfinite(*value); }

// It tells something, and what it tells is finite.
bool tells_finite(const Cell& cell) {
  return (cell.numerics & kNotFinite) == 0 && ((cell.numerics & kLossSeen) != 0 || finite(cell.grad_norm));
}

NonFinite::First first_of(const StepRow& row, const Cell& cell) {
  NonFinite::First first{static_cast<int64_t>(row.step), cell.numerics & kNotFinite, 0};
  const auto& value = first.what & kLossNotFinite ? cell.loss : cell.grad_norm;
  if (value && !std::isfinite(*value)) first.value = *value;
  return first;
}

}  // namespace

void Numerics::add(const StepRow& row) {
  add_non_finite(row);
  if ((row.tags & kTagProvisional) != 0) return;  // half a step
  ++rows_;
  add_skipped(row);
  add_scheduler(row);
  add_values(row);
  replicas_.add(row, &Cell::grad_norm);
  rates_.add(row, &Cell::learning_rate);
  add_left_out(row);
}

void Numerics::begin_attempt() {
  if (!non_finite_.empty()) non_finite_.back().over = true;
  if (skipped_.first_step >= 0) skipped_.over = true;
  newest_skips_.clear();
  replicas_ = rates_ = Replicas(limits_.replicas);
  newest_.clear();
  losses_.clear();
  norms_.clear();
}

void Numerics::add_non_finite(const StepRow& row) {
  const bool open = !non_finite_.empty() && !non_finite_.back().over;
  const auto bad = [](const Cell& cell) { return (cell.numerics & kNotFinite) != 0 && !was_skipped(cell); };
  const bool any = std::any_of(row.cells.begin(), row.cells.end(), bad);
  if (!any && !open) return;
  const auto step = static_cast<int64_t>(row.step);
  if (!open) {
    // The first of the run tells most; of the others the newest.
    if (non_finite_.size() >= kMaxEpisodes) non_finite_.erase(non_finite_.begin() + 1);
    NonFinite& fresh = non_finite_.emplace_back();
    ++episodes_;
    fresh.first_step = step;
    for (const Cell& cell : row.cells)
      if (!bad(cell) || (cell.numerics & kLossNotFinite) == 0)
        if ((cell.numerics & kLossSeen) != 0) fresh.finite_then.push_back(cell.rank);
    not_yet_finite_.clear();
  }
  NonFinite& now = non_finite_.back();
  now.wall_ms += static_cast<double>(row.wall_ms);
  if (any) now.last_step = step, ++now.steps;
  for (const Cell& cell : row.cells) {
    const auto waits = std::find(not_yet_finite_.begin(), not_yet_finite_.end(), cell.rank);
    if (bad(cell)) {
      now.ranks.try_emplace(cell.rank, first_of(row, cell));
      if (waits == not_yet_finite_.end()) not_yet_finite_.push_back(cell.rank);
    } else if (waits != not_yet_finite_.end() && tells_finite(cell)) {
      not_yet_finite_.erase(waits);
    }
  }
  if (not_yet_finite_.empty()) now.over = true;
}

// A step is skipped by all ranks at once: gradients overflow after they were summed up.
void Numerics::add_skipped(const StepRow& row) {
  const bool now = std::any_of(row.cells.begin(), row.cells.end(), was_skipped);
  newest_skips_.push_back(now);
  if (newest_skips_.size() > kSkipWindow) newest_skips_.erase(newest_skips_.begin());
  const auto count = static_cast<size_t>(std::count(newest_skips_.begin(), newest_skips_.end(), true));
  const bool most = newest_skips_.size() == kSkipWindow && rows_ >= limits_.skipped_after + kSkipWindow &&
                    static_cast<double>(count) >= limits_.skipped_share * static_cast<double>(kSkipWindow);
  const bool open = skipped_.first_step >= 0 && !skipped_.over;
  if (!open && !most) return;
  if (!open) {
    skipped_ = {};
    const auto oldest = std::find(newest_skips_.begin(), newest_skips_.end(), true);
    skipped_.steps = static_cast<uint64_t>(newest_skips_.end() - oldest);
    skipped_.first_step = static_cast<int64_t>(row.step + 1 - skipped_.steps);
    skipped_.skipped = count;
    skipped_.wall_ms = static_cast<double>(row.wall_ms) * static_cast<double>(count);
  } else {
    ++skipped_.steps;
    skipped_.skipped += now;
    if (now) skipped_.wall_ms += static_cast<double>(row.wall_ms);
  }
  if (now) skipped_.last_step = static_cast<int64_t>(row.step);
  for (const Cell& cell : row.cells)
    if (was_skipped(cell) && (cell.numerics & kLossNotFinite) != 0) ++skipped_.overflow[cell.rank];
  if (2 * static_cast<double>(count) < limits_.skipped_share * static_cast<double>(kSkipWindow)) skipped_.over = true;
}

// Ranks run the same program: the first one that is there stands for all.
void Numerics::add_scheduler(const StepRow& row) {
  if (row.cells.empty()) return;
  const Cell& cell = row.cells.front();
  SchedulerPace& pace = scheduler_;
  const auto step = static_cast<int64_t>(row.step);
  ++pace.steps;
  pace.advances += cell.scheduler_advances;
  pace.optimizer_steps += cell.optimizer_steps;
  pace.backwards += cell.backwards;
  if (cell.scheduler_advances > cell.optimizer_steps && cell.optimizer_steps > 0) {
    ++pace.ahead_steps;
    if (pace.first_ahead < 0) pace.first_ahead = step;
    pace.last_ahead = step;
  }
  if ((cell.numerics & kSchedulerFirst) != 0 && pace.before_first < 0) pace.before_first = step;
}

void Numerics::add_values(const StepRow& row) {
  for (const Cell& cell : row.cells) {
    if (was_skipped(cell) || (cell.numerics & kNotFinite) != 0) continue;
    if (finite(cell.loss)) losses_.try_emplace(cell.rank, limits_.spikes).first->second.add(row.step, *cell.loss);
    if (finite(cell.grad_norm) && (cell.numerics & kLossScaled) == 0)
      norms_.try_emplace(cell.rank, limits_.spikes).first->second.add(row.step, *cell.grad_norm);
  }
}

// A rank without a cell in this row, whose step before has gone over the operations of two steps of the others with no
// more steps of its optimizer than they took. Where records of it were lost, the optimizer's may be among them.
void Numerics::add_left_out(const StepRow& row) {
  const auto step = static_cast<int64_t>(row.step);
  std::vector<Counted> carried;
  const bool some_missing = row.cells.size() < newest_.size() && !row.cells.empty() && step == newest_step_ + 1;
  for (const Counted& before : some_missing ? newest_ : std::vector<Counted>()) {
    if (row.find(before.rank) || before.lossy) continue;
    const Cell& other = row.cells.front();
    const auto of_other =
        std::find_if(newest_.begin(), newest_.end(), [&](const Counted& c) { return c.rank == other.rank; });
    if (of_other == newest_.end() || other.optimizer_steps == 0 || other.collectives == 0 || other.backwards == 0)
      continue;
    if (before.collectives < of_other->collectives + other.collectives ||
        before.backwards < of_other->backwards + other.backwards || before.optimizer_steps > of_other->optimizer_steps)
      continue;
    LeftOut& left = left_out_[before.rank];
    if (left.first_step < 0) left.first_step = step - 1;
    left.last_step = step - 1, ++left.steps;
    Counted rest = before;
    rest.backwards -= of_other->backwards, rest.collectives -= of_other->collectives;
    carried.push_back(rest);
  }
  newest_.clear();
  for (const Cell& cell : row.cells)
    newest_.push_back({.rank = cell.rank,
                       .backwards = cell.backwards,
                       .collectives = cell.collectives,
                       .optimizer_steps = cell.optimizer_steps,
                       .lossy = (cell.tags & kTagLossy) != 0});
  newest_.insert(newest_.end(), carried.begin(), carried.end());
  newest_step_ = step;
}

}  // namespace stepscope
