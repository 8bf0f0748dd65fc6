#include "analyze/sync_points.h"

#include <algorithm>
#include <map>
#include <utility>

namespace stepscope {

const SyncPoint::Participant& SyncPoint::last() const {
  return *std::min_element(participants.begin(), participants.end(),
                           [](const auto& a, const auto& b) { return a.stall_ms < b.stall_ms; });
}

std::vector<SyncPoint> sync_points_of(StepRow& row) {
  std::map<SyncPointKey, SyncPoint> by_key;
  for (size_t r = 0; r < row.cells.size(); ++r) {
    std::vector<CellStall>& stalls = row.cells[r].stalls;
    for (size_t j = 0; j < stalls.size(); ++j) {
      const SyncPointKey key = stalls[j].key(row.cells[r].rank);
      SyncPoint& sync_point = by_key[key];
      sync_point.key = key;
      sync_point.order = std::max(sync_point.order, j);
      if (sync_point.participants.empty() || sync_point.participants.back().at != static_cast<int>(r))
        sync_point.participants.push_back({static_cast<int>(r), row.cells[r].rank, 0, {}});
      sync_point.participants.back().stall_ms += stalls[j].stall_ms;
      sync_point.participants.back().parts.push_back(&stalls[j]);
    }
  }
  std::vector<SyncPoint> list;
  for (auto& [key, sync_point] : by_key) list.push_back(std::move(sync_point));
  std::stable_sort(list.begin(), list.end(), [](const SyncPoint& a, const SyncPoint& b) { return a.order < b.order; });
  return list;
}

}  // namespace stepscope
