// Thresholds of the host rules: table [host] of spec/rules.toml. What a user may set, and how: thresholds.h.
#pragma once

#include <map>
#include <string>

#include "diagnose/threshold_table.h"

namespace stepscope {

struct HostThresholds {
#define X(name, standard, least, largest, unit, reason) double name = standard;
  STEPSCOPE_HOST_THRESHOLDS(X)
#undef X
  // The defaults with these overrides; what check_threshold() refuses, and names of the other table, are ignored.
  static HostThresholds with(const std::map<std::string, double>& overrides);
};

}  // namespace stepscope
