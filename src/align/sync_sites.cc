#include "align/sync_sites.h"

#include <algorithm>

namespace stepscope {

void add_sync(std::vector<SyncSite>& sites, const std::string& site, int64_t ns) {
  auto at = std::find_if(sites.begin(), sites.end(), [&](const SyncSite& s) { return s.site == site; });
  if (at == sites.end()) {
    if (sites.size() >= RankLife::kMaxSyncSites) return;
    at = sites.insert(sites.end(), {site, 0, 0});
  }
  ++at->count;
  at->total_ns += ns;
  for (; at != sites.begin() && std::prev(at)->total_ns < at->total_ns; --at) std::iter_swap(at, std::prev(at));
}

}  // namespace stepscope
