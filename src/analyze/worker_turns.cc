#include "analyze/worker_turns.h"

#include <algorithm>
#include <numeric>

namespace stepscope {
namespace {

constexpr double kLate = 0.25;  // of the mean wait of those turns

double wait_ms(const Cell& cell) { return cell.ms[index(Category::kInputWait)]; }

// Steps of one epoch, one after the other.
struct Stretch {
  bool from_first = false;  // begins with the iterator's first fetch
  std::vector<double> waits_ms;
};

std::vector<Stretch> stretches(const Rows& rows, int rank) {
  std::vector<Stretch> out;
  const Cell* before = nullptr;
  uint64_t step_before = 0;
  for (const StepRow* row : rows.rows) {
    const Cell* cell = row->find(rank);
    if (!cell || cell->fetches != 1) {
      before = nullptr;
      continue;
    }
    const bool follows = before && row->step == step_before + 1;
    const bool new_epoch = row->step == 0 || (follows && before->epoch != cell->epoch);
    if (!follows || new_epoch) out.push_back({.from_first = new_epoch});
    // What an iterator's first fetch takes beyond a usual one is the start of the epoch.
    out.back().waits_ms.push_back(new_epoch ? 0 : wait_ms(*cell));
    before = cell, step_before = row->step;
  }
  return out;
}

}  // namespace

std::optional<WorkerTurns> worker_turns(const Rows& rows, int rank, int workers) {
  if (workers < 2) return std::nullopt;
  const auto count = static_cast<size_t>(workers);
  double waited = 0, most = 0;
  size_t turns = 0, late_turns = 0;
  std::vector<double> by_worker(count);
  bool numbered = false;
  for (const Stretch& stretch : stretches(rows, rank)) {
    if (stretch.waits_ms.size() < kLeastTurns * count) continue;
    std::vector<double> turn(count);
    for (size_t f = 0; f < stretch.waits_ms.size(); ++f) turn[f % count] += stretch.waits_ms[f];
    const auto longest = std::max_element(turn.begin(), turn.end());
    waited += std::accumulate(turn.begin(), turn.end(), 0.0), most += *longest;
    for (size_t f = static_cast<size_t>(longest - turn.begin()); f < stretch.waits_ms.size(); f += count, ++turns)
      late_turns += stretch.waits_ms[f] * static_cast<double>(stretch.waits_ms.size() / count) > kLate * *longest;
    if (!stretch.from_first) continue;
    numbered = true;
    by_worker[static_cast<size_t>(longest - turn.begin())] += *longest;
  }
  if (turns == 0 || waited <= 0) return std::nullopt;
  WorkerTurns out{.share = most / waited,
                  .late_share = static_cast<double>(late_turns) / static_cast<double>(turns),
                  .turns = turns,
                  .usual_share = 1 / static_cast<double>(workers)};
  if (numbered) out.worker = static_cast<int>(std::max_element(by_worker.begin(), by_worker.end()) - by_worker.begin());
  return out;
}

}  // namespace stepscope
