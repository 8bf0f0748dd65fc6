// TIMEOUT_AHEAD: ranks wait for one that is busy with something long, and the timeout of their group will end the job
// before it comes. Pure; asked where there is no HANG: whoever is waited for is given its time.
#pragma once

#include <optional>

#include "diagnose/finding.h"
#include "diagnose/standing.h"

namespace stepscope {

// From kShare of the timeout on. Nothing where no timeout is known, or nobody is waited for.
inline constexpr double kTimeoutAheadShare = 0.5;
std::optional<Finding> judge_timeout(const JobStanding& job);

}  // namespace stepscope
