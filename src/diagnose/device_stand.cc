#include "diagnose/device_stand.h"

#include <algorithm>

#include "base/text_format.h"

namespace stepscope {

std::vector<int> devices_behind(const JobStanding& job) {
  const DevicePlace* first = nullptr;
  for (const RankStanding& r : job.ranks) {
    if (r.ended) continue;
    if (!r.device) return {};
    if (!first || r.device->before(*first)) first = &*r.device;
  }
  std::vector<int> behind;
  bool further = false;
  for (const RankStanding& r : job.ranks) {
    if (r.ended) continue;
    if (first->before(*r.device))
      further = true;
    else if (r.device->pending)
      behind.push_back(r.rank);
    else
      return {};  // it has done all that it was given: its host is behind
  }
  return further ? behind : std::vector<int>{};
}

std::string device_words(const RankStanding& rank) {
  const DevicePlace& at = *rank.device;
  const Kind kind = kind_of(at.what);
  const bool end = edge_of(at.what) != Edge::kBegin;
  return formatted("the {}{} of step {}", end ? "end of the " : "", kind == Kind::kForward ? "forward" : "backward",
                   rank.steps - std::min(rank.steps, at.steps_ago));
}

}  // namespace stepscope
