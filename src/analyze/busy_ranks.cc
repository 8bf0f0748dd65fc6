#include "analyze/busy_ranks.h"

#include <algorithm>

namespace stepscope {

namespace {

constexpr double kLeast = 0.1;  // times that work takes

}  // namespace

void BusyRanks::add(double begin, double end, double busy) {
  if (!(end > begin) || !(busy > 0)) return;
  edges_.push_back({begin, busy});
  edges_.push_back({end, -busy});
}

void BusyRanks::settle() {
  std::sort(edges_.begin(), edges_.end(), [](const Edge& a, const Edge& b) { return a.at < b.at; });
  level_.resize(edges_.size());
  sum_.resize(edges_.size());
  double level = 0, sum = 0;
  for (size_t i = 0; i < edges_.size(); ++i) {
    if (i > 0) sum += level * (edges_[i].at - edges_[i - 1].at);
    sum_[i] = sum;
    level_[i] = level += edges_[i].change;
  }
}

double BusyRanks::integral(double until) const {
  const auto behind =
      std::upper_bound(edges_.begin(), edges_.end(), until, [](double at, const Edge& edge) { return at < edge.at; });
  if (behind == edges_.begin()) return 0;
  const auto i = static_cast<size_t>(behind - edges_.begin()) - 1;
  return sum_[i] + level_[i] * (until - edges_[i].at);
}

double BusyRanks::mean(double begin, double end) const {
  if (!(end > begin)) return 0;
  return std::max(0.0, (integral(end) - integral(begin)) / (end - begin));
}

double BusyRanks::mean_pace(double begin, double end, double own, double per_peer) const {
  if (!(end > begin)) return 1;
  auto next =
      std::upper_bound(edges_.begin(), edges_.end(), begin, [](double at, const Edge& edge) { return at < edge.at; });
  double worked = 0;
  for (double at = begin; at < end; ++next) {
    const double until = next == edges_.end() ? end : std::min(end, next->at);
    const double level = next == edges_.begin() ? 0 : level_[static_cast<size_t>(next - edges_.begin()) - 1];
    worked += (until - at) / std::max(kLeast, 1 + per_peer * std::max(0.0, level - own));
    at = until;
    if (next == edges_.end()) break;
  }
  return worked / (end - begin);
}

}  // namespace stepscope
