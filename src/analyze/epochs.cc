#include "analyze/epochs.h"

#include <algorithm>
#include <utility>

namespace stepscope {
namespace {

constexpr Category kEndsAnEpoch[] = {Category::kValidation, Category::kCheckpoint};

}  // namespace

void Epochs::add(const StepRow& row) {
  int32_t epoch = -1;
  const auto present = static_cast<double>(row.cells.size());
  for (const Cell& cell : row.cells) epoch = std::max(epoch, cell.epoch);
  if (present == 0 || (epoch < 0 && kept_.empty())) return;
  const bool opens = kept_.empty() || (epoch >= 0 && epoch != kept_.back().epoch);
  if (opens) {
    kept_.push_back({.epoch = epoch, .first_step = row.step});
    ++count_;
    if (kept_.size() > kMaxEpochs) kept_.erase(kept_.begin() + 1);
  }
  EpochSums& sums = kept_.back();
  sums.last_step = row.step;
  ++sums.steps;
  ++steps_;
  sums.wall_ms += row.wall_ms;
  for (const Cell& cell : row.cells) {
    for (size_t c = 0; c < kCategoryCount; ++c) sums.ms[c] += cell.ms[c] / present;
    sums.samples += cell.samples;
  }
  if (opens && count_ > 1) give_back(sums, kept_[kept_.size() - 2]);
}

// `opened` holds its first row.
void Epochs::give_back(EpochSums& opened, EpochSums& before) {
  for (Category c : kEndsAnEpoch) {
    const double ms = std::exchange(opened.ms[index(c)], 0);
    before.ms[index(c)] += ms;
    before.wall_ms += ms;
    opened.wall_ms -= ms;
  }
}

std::deque<EpochSums> Epochs::told() const {
  return count_ < 2 || steps_ < 2 * count_ ? std::deque<EpochSums>{} : kept_;
}

}  // namespace stepscope
