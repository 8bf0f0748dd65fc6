// The places of a program that wait for its device, by the time they take. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "align/rank_step.h"

namespace stepscope {

// One more wait at `site` ("" = place not known). Longest first, at most RankLife::kMaxSyncSites; a place that comes
// when all are taken is not kept.
void add_sync(std::vector<SyncSite>& sites, const std::string& site, int64_t ns);

}  // namespace stepscope
