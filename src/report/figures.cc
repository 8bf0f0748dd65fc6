#include "report/figures.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/text_format.h"

namespace stepscope {
namespace {

bool missing(MaybeNumber value) { return !value || !std::isfinite(*value); }
std::string not_measured() { return std::string(kNotMeasured); }

// Three significant digits or so, never an exponent.
std::string digits(double value) {
  const double size = std::fabs(value);
  if (size >= 99.95) return formatted("{:.0f}", value);
  if (size >= 9.995) return formatted("{:.1f}", value);
  return formatted("{:.2f}", value);
}

constexpr std::pair<std::string_view, std::string_view> kLabels[] = {
    {"h2d", "host to device"},
    {"comm_transfer", "communication"},
    {"user_code", "your code"},
    {"unresolved", "unresolved: unseen ranks or the link"},
    {"mfu", "MFU"},
    {"gc", "garbage collection"}};

std::string format_flops(double flops) {
  constexpr std::pair<double, const char*> scales[] = {
      {1e18, "EFLOP"}, {1e15, "PFLOP"}, {1e12, "TFLOP"}, {1e9, "GFLOP"}, {1e6, "MFLOP"}};
  for (const auto& [scale, unit] : scales)
    if (flops >= scale) return digits(flops / scale) + " " + unit;
  return digits(flops) + " FLOP";
}

constexpr std::string_view kUnits[] = {"_per_s", "_ms",  "_us",    "_ns",      "_s",
                                       "_bytes", "_pct", "_share", "_celsius", "_watts"};

}  // namespace

std::string format_ms(MaybeNumber ms) {
  if (missing(ms)) return not_measured();
  return std::fabs(*ms) >= 1000 ? digits(*ms / 1000) + " s" : digits(*ms) + " ms";
}

std::string format_ms_bare(MaybeNumber ms) { return missing(ms) ? not_measured() : digits(*ms); }

std::string format_share(MaybeNumber share) {
  if (missing(share)) return not_measured();
  const double percent = *share * 100;
  if (percent > 0 && percent < 0.05) return "<0.1 %";
  return formatted("{:.1f} %", percent);
}

std::string format_percent(MaybeNumber share) {
  if (missing(share)) return not_measured();
  const double percent = *share * 100;
  return std::fabs(percent) < 9.95 && percent != 0 ? formatted("{:.1f} %", percent) : formatted("{:.0f} %", percent);
}

std::string format_skew(MaybeNumber percent) {
  if (missing(percent)) return not_measured();
  return formatted("{:+.0f} %", std::fabs(*percent) < 0.5 ? 0.0 : *percent);
}

std::string format_bytes(MaybeNumber bytes) {
  if (missing(bytes)) return not_measured();
  constexpr std::array units = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = *bytes;
  size_t unit = 0;
  while (std::fabs(value) >= 1024 && unit + 1 < units.size()) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? formatted("{:.0f} B", value) : formatted("{} {}", digits(value), units[unit]);
}

std::string format_count(uint64_t count) {
  std::string out = std::to_string(count);
  for (int pos = static_cast<int>(out.size()) - 3; pos > 0; pos -= 3) out.insert(static_cast<size_t>(pos), ",");
  return out;
}

std::string format_seconds(MaybeNumber seconds) {
  if (missing(seconds)) return not_measured();
  const double s = *seconds;
  if (std::fabs(s) < 120) return digits(s) + " s";
  if (std::fabs(s) > 1e12) return formatted("{:.3g} s", s);
  const auto whole = static_cast<int64_t>(std::llround(s));
  if (std::llabs(whole) < 7200) return formatted("{} min {:02} s", whole / 60, std::llabs(whole % 60));
  return formatted("{} h {:02} min", whole / 3600, std::llabs(whole % 3600) / 60);
}

std::string format_value(std::string_view name, MaybeNumber value) {
  if (missing(value)) return not_measured();
  if (name == "mfu") return format_share(value);
  if (name == "flops_per_s") return format_flops(*value);
  if (name.ends_with("_ms")) return format_ms(value);
  if (name.ends_with("_us")) return digits(*value) + " µs";
  if (name.ends_with("_ns")) return digits(*value) + " ns";
  if (name.ends_with("_bytes")) return format_bytes(value);
  if (name.ends_with("_pct")) return formatted("{:.1f} %", *value);
  if (name.ends_with("_ms_per_step")) return format_ms(value);
  if (name.ends_with("share") || name.find("_share_of_") != std::string_view::npos) return format_share(value);
  if (name.ends_with("_celsius")) return digits(*value) + " °C";
  if (name.ends_with("_watts")) return digits(*value) + " W";
  if (name.ends_with("_s") && !name.ends_with("_per_s")) return format_seconds(value);
  if (*value >= 0 && *value < 1e15 && (*value >= 1000 || *value == std::floor(*value)))
    return format_count(static_cast<uint64_t>(std::llround(*value)));
  return digits(*value);
}

std::string category_label(std::string_view category) {
  for (const auto& [from, to] : kLabels) {
    if (category == from) return std::string(to);
  }
  std::string out(category);
  std::replace(out.begin(), out.end(), '_', ' ');
  return out;
}

std::string value_label(std::string_view name) {
  if (name.ends_with("_ms_per_step")) return category_label(name.substr(0, name.size() - 12)) + " per step";
  for (std::string_view unit : kUnits) {
    if (name.size() > unit.size() && name.ends_with(unit))
      return category_label(name.substr(0, name.size() - unit.size()));
  }
  return category_label(name);
}

std::string format_ranks(const std::vector<int>& ranks) {
  if (ranks.empty()) return "no rank";
  if (ranks.size() == 1) return formatted("rank {}", ranks[0]);
  std::vector<int> sorted = ranks;
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  constexpr size_t kMaxParts = 6;
  std::string out = "ranks ";
  size_t parts = 0, named = 0;
  for (size_t i = 0; i < sorted.size() && parts < kMaxParts; ++parts) {
    size_t end = i;
    while (end + 1 < sorted.size() && sorted[end + 1] == sorted[end] + 1) ++end;
    if (end - i < 2) end = i;  // two neighbours read better as "2, 3"
    if (parts > 0) out += ", ";
    out += end == i ? formatted("{}", sorted[i]) : formatted("{}–{}", sorted[i], sorted[end]);
    named += end - i + 1;
    i = end + 1;
  }
  if (named < sorted.size()) out += formatted(" and {} more", sorted.size() - named);
  return out;
}

size_t phase_order(std::string_view phase) {
  return static_cast<size_t>(std::find(kCategoryNames.begin(), kCategoryNames.end(), phase) - kCategoryNames.begin());
}

std::vector<LedgerSlice> ledger_slices(const LedgerNs& ledger) {
  double sum = 0;
  for (int64_t ns : ledger) sum += static_cast<double>(std::max<int64_t>(ns, 0));
  std::vector<LedgerSlice> slices;
  for (size_t i = 0; i < kCategoryCount; ++i) {
    if (ledger[i] > 0) slices.push_back({static_cast<Category>(i), ledger[i], static_cast<double>(ledger[i]) / sum});
  }
  return slices;
}

}  // namespace stepscope
