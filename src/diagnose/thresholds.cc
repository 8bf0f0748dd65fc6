#include "diagnose/thresholds.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "base/text_format.h"
#include "diagnose/host_thresholds.h"

namespace stepscope {

namespace {

constexpr auto kSpecs = [] {
#define X(name, standard, least, largest, unit, reason) ThresholdSpec{#name, standard, least, largest, unit, reason},
  std::array specs = {STEPSCOPE_THRESHOLDS(X) STEPSCOPE_HOST_THRESHOLDS(X)};
#undef X
  std::ranges::sort(specs, {}, &ThresholdSpec::name);
  return specs;
}();

constexpr size_t kLongestName = 64;

// Levenshtein's distance.
size_t edits_between(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t k = 0; k < b.size(); ++k) {
      const size_t replaced = diagonal + (a[i] == b[k] ? 0 : 1);
      diagonal = row[k + 1];
      row[k + 1] = std::min({replaced, row[k] + 1, diagonal + 1});
    }
  }
  return row.back();
}

// Overrides of one struct, by name of field; what is refused stays out.
using Field = std::pair<std::string_view, double*>;
void set_fields(std::span<const Field> fields, const std::map<std::string, double>& overrides) {
  for (const auto& [name, value] : overrides) {
    const auto at = std::find_if(fields.begin(), fields.end(), [&](const Field& f) { return f.first == name; });
    if (at != fields.end() && check_threshold(name, value)) *at->second = value;
  }
}

}  // namespace

std::span<const ThresholdSpec> threshold_specs() { return kSpecs; }

Result<const ThresholdSpec*> check_threshold(std::string_view name, double value) {
  const auto found = std::ranges::find(kSpecs, name, &ThresholdSpec::name);
  if (found == kSpecs.end()) {
    const std::string_view asked = name.substr(0, kLongestName);
    const auto edits = [&](const ThresholdSpec& s) { return edits_between(asked, s.name); };
    const std::string_view nearest = std::ranges::min_element(kSpecs, {}, edits)->name;
    return fail(formatted("no threshold is called '{}'; the nearest is {} (stepscope explain thresholds lists all)",
                          asked, nearest));
  }
  if (!(value >= found->least && value <= found->largest)) {
    return fail(formatted("{} must be {}, between {} and {} (default {})", name, found->unit, found->least,
                          found->largest, found->standard));
  }
  return &*found;
}

#define X(name, standard, least, largest, unit, reason) Field{#name, &out.name},

Thresholds Thresholds::with(const std::map<std::string, double>& overrides) {
  Thresholds out;
  const Field fields[] = {STEPSCOPE_THRESHOLDS(X)};
  set_fields(fields, overrides);
  return out;
}

HostThresholds HostThresholds::with(const std::map<std::string, double>& overrides) {
  HostThresholds out;
  const Field fields[] = {STEPSCOPE_HOST_THRESHOLDS(X)};
  set_fields(fields, overrides);
  return out;
}

#undef X

}  // namespace stepscope
