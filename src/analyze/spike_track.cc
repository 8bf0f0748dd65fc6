#include "analyze/spike_track.h"

#include <algorithm>
#include <cmath>

#include "analyze/robust.h"

namespace stepscope {

double SpikeTrack::log_of(double value) { return std::log(std::max(value, 1e-300)); }

void SpikeTrack::add(uint64_t step, double value) {
  values_[count_] = value;
  steps_[count_] = step;
  if (++count_ < kBlock) return;
  count_ = 0;
  block(median({values_.begin(), values_.end()}));
}

void SpikeTrack::keep(double median) {
  if (history_.size() >= kHistory) history_.erase(history_.begin());
  history_.push_back(median);
}

void SpikeTrack::block(double level) {
  if (blocks_++ == 0) start_ = level;
  if (above_ > 0) {
    newest_.last_step = static_cast<int64_t>(steps_.back());
    newest_.highest = std::max(newest_.highest, *std::max_element(values_.begin(), values_.end()));
    if (scaled(level) <= back_) {
      newest_.recovered = true;
      above_ = 0;
      return keep(level);
    }
    if (++above_ <= kSettledBlocks) return;
    newest_.settled = true;
    above_ = 0;
    history_.clear();
    return keep(level);
  }
  if (history_.size() < limits_.least_blocks) return keep(level);
  logarithmic_ = *std::min_element(history_.begin(), history_.end()) > 0;
  std::vector<double> recent;
  for (double one : history_) recent.push_back(scaled(one));
  const double middle = median(recent), highest = *std::max_element(recent.begin(), recent.end());
  const double spread = std::max({mad_sigma(recent), (quantile(recent, 0.9) - quantile(recent, 0.1)) / 2.56, 1e-12});
  const double least = logarithmic_ ? std::log(limits_.least_factor) : (limits_.least_factor - 1) * std::abs(middle);
  limit_ = std::max({middle + limits_.spreads * spread, highest + limits_.over_highest * spread, highest + least});
  back_ = std::max(highest, middle + limits_.over_highest * spread);
  if (scaled(level) <= limit_) return keep(level);
  // It began with the first value of the block that is above.
  size_t at = 0;
  while (at + 1 < kBlock && scaled(values_[at]) <= limit_) ++at;
  newest_ = {.first_step = static_cast<int64_t>(steps_[at]),
             .last_step = static_cast<int64_t>(steps_.back()),
             .usual = median(history_),
             .highest = *std::max_element(values_.begin(), values_.end()),
             .start = start_,
             .recovered = false,
             .settled = false};
  ++spikes_;
  above_ = 1;
}

}  // namespace stepscope
