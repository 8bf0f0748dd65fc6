// The target of a request taken apart: "/api/v1/runs/my%20run/steps?from=10" → segments and parameters, decoded. Pure,
// bounded, for bytes from anywhere: what is no path of ours is an Error, nothing throws.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace stepscope {

inline constexpr size_t kMaxTargetBytes = 4096, kMaxTargetSegments = 8, kMaxTargetParameters = 16;

struct Target {
  std::vector<std::string> segments;              // decoded; "/" has none
  std::map<std::string, std::string> parameters;  // decoded; each name once
};

// Refused: what does not begin with "/", bad or zero %-codes, control characters, a name twice, too much of anything.
Result<Target> parse_target(std::string_view text);

// For addresses that we print or send.
std::string percent_encoded(std::string_view text);

}  // namespace stepscope
