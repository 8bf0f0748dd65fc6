// Named thresholds of the rules: made from spec/rules.toml when stepscope is built. Two structs, since the rules over
// what was sampled from outside see no others; one list of names for the user. Pure.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "diagnose/threshold_table.h"

namespace stepscope {

// As spec/rules.toml describes it.
struct ThresholdSpec {
  std::string_view name;
  double standard = 0, least = 0, largest = 0;
  std::string_view unit, reason;  // unit in words: "a share from 0 to 1"
};

// In the order of the names, those of both tables.
std::span<const ThresholdSpec> threshold_specs();

// The threshold that `name` means, and `value` is allowed for it. Error: one line that names the nearest name or the
// allowed values.
Result<const ThresholdSpec*> check_threshold(std::string_view name, double value);

struct Thresholds {
#define X(name, standard, least, largest, unit, reason) double name = standard;
  STEPSCOPE_THRESHOLDS(X)
#undef X
  // The defaults with these overrides; what check_threshold() refuses, and names of the other table, are ignored.
  static Thresholds with(const std::map<std::string, double>& overrides);
};

}  // namespace stepscope
