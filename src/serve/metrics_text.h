// Runs that go on as Prometheus text (format 0.0.4), one sample per series; names end in their unit. Label values are
// escaped. What was not measured has no line. Pure; at most kMaxRankSeries ranks per run.
#pragma once

#include <string>
#include <vector>

#include "serve/run_state.h"

namespace stepscope {

inline constexpr size_t kMaxRankSeries = 4096;
std::string metrics_text(const std::vector<RunState>& runs);

}  // namespace stepscope
