#define FMT_HEADER_ONLY  // fmt without its shared library
#include "base/text_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace stepscope {
namespace {

bool missing(MaybeNumber value) { return !value || !std::isfinite(*value); }
std::string not_measured() { return std::string(kNotMeasured); }

}  // namespace

std::string format_arguments(fmt::string_view text, fmt::format_args arguments) {
  return fmt::vformat(text, arguments);
}

std::string format_digits(MaybeNumber value) {
  if (missing(value)) return not_measured();
  const double size = std::fabs(*value);
  if (size >= 99.95) return formatted("{:.0f}", *value);
  if (size >= 9.995) return formatted("{:.1f}", *value);
  return formatted("{:.2f}", *value);
}

std::string format_ms(MaybeNumber ms) {
  if (missing(ms)) return not_measured();
  return std::fabs(*ms) >= 1000 ? format_digits(*ms / 1000) + " s" : format_digits(*ms) + " ms";
}

std::string format_ms_bare(MaybeNumber ms) { return format_digits(ms); }

std::string format_share(MaybeNumber share) {
  if (missing(share)) return not_measured();
  const double percent = *share * 100;
  if (percent > 0 && percent < 0.05) return "<0.1 %";
  return formatted("{:.1f} %", percent);
}

std::string format_percent(MaybeNumber share) {
  if (missing(share)) return not_measured();
  const double percent = *share * 100;
  if (percent > 0 && percent < 0.05) return "<0.1 %";
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
  return unit == 0 ? formatted("{:.0f} B", value) : formatted("{} {}", format_digits(value), units[unit]);
}

std::string format_count(uint64_t count) {
  std::string out = std::to_string(count);
  for (int pos = static_cast<int>(out.size()) - 3; pos > 0; pos -= 3) out.insert(static_cast<size_t>(pos), ",");
  return out;
}

std::string format_seconds(MaybeNumber seconds) {
  if (missing(seconds)) return not_measured();
  const double s = *seconds;
  if (std::fabs(s) < 120) return format_digits(s) + " s";
  if (std::fabs(s) > 1e12) return formatted("{:.3g} s", s);
  const auto whole = static_cast<int64_t>(std::llround(s));
  if (std::llabs(whole) < 7200) return formatted("{} min {:02} s", whole / 60, std::llabs(whole % 60));
  if (std::llabs(whole) < 172'800) return formatted("{} h {:02} min", whole / 3600, std::llabs(whole % 3600) / 60);
  return formatted("{} days {} h", whole / 86'400, std::llabs(whole % 86'400) / 3600);
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

std::string format_steps(uint64_t count) { return format_count(count) + (count == 1 ? " step" : " steps"); }

std::string capitalized(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return text;
}

}  // namespace stepscope
