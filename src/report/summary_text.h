// The snapshot as final_summary.txt: the verdict first, what it costs, the next step, why; then the evidence.
// Pure: same snapshot and options, same bytes. UTF-8, never wider than `columns`, colour only when asked.
#pragma once

#include <string>

#include "diagnose/snapshot.h"
#include "report/text_options.h"

namespace stepscope {

// More ranks than this are elided: those that others wait for most are shown.
inline constexpr size_t kMaxRankRows = 16;

std::string summary_text(const Snapshot& snapshot, const TextOptions& options = {});

// What a node's terminal shows when its part is told elsewhere: how the run went here, and where the verdict is
// ("node0: /logs/run"). Half a job's page beside the whole one would only be read as a second verdict.
std::string node_text(const Snapshot& snapshot, const std::string& verdict_place, const TextOptions& options = {});

}  // namespace stepscope
