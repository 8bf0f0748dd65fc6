#include "analyze/host_load.h"

#include <algorithm>

namespace stepscope {

namespace {

constexpr double kShareOfPairs = 0.5, kNoticedCores = 0.05, kUsualDelay = 0.02;

}  // namespace

double HostLoad::most_slowdown_per_peer(int ranks) const {
  if (ranks < 2) return 0;
  if (cores <= 0) return 1;
  const auto slowdown = [&](int computing) {
    return std::max(1.0, (computing * rank_cores + others_cores) / (kShareOfPairs * cores));
  };
  return std::min(1.0, (slowdown(ranks) / slowdown(1) - 1) / (ranks - 1));
}

double HostLoad::most_slowdown_by_others(int ranks) const {
  if (!others_are_noticed() || ranks * rank_cores + others_cores <= kShareOfPairs * cores) return 0;
  return std::min(1.0, others_cores / rank_cores);
}

bool HostLoad::others_are_noticed() const { return cores > 0 && others_cores >= kNoticedCores * cores; }

bool HostLoad::has_strangers() const { return others_are_noticed() && run_delay > kUsualDelay; }

}  // namespace stepscope
