// Text with figures in it, by fmt: formatted("rank {} waits {}", rank, format_ms(ms)). The format is checked where it
// is written; the work is done in one translation unit, since fmt's code costs every file that holds it five seconds of
// compiling. Below: figures as people read them, one function for each quantity. Titles of findings, tables and
// messages of the command line all use these, so that a figure reads the same wherever it stands. Pure.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stepscope {

std::string format_arguments(fmt::string_view text, fmt::format_args arguments);

template <class... Arguments>
std::string formatted(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  return format_arguments(text, fmt::make_format_args(arguments...));
}

inline constexpr std::string_view kNotMeasured = "–";

using MaybeNumber = std::optional<double>;  // nullopt, NaN and infinity: not measured

std::string format_digits(MaybeNumber value);     // three significant digits: "0.04", "51.9", "1250"
std::string format_ms(MaybeNumber ms);            // "0.04 ms", "51.9 ms", "1.25 s"
std::string format_ms_bare(MaybeNumber ms);       // the same digits without unit, always ms: "0.04", "51.9", "1250"
std::string format_share(MaybeNumber share);      // 0.213 -> "21.3 %"; "<0.1 %" for the tiny: for tables
std::string format_percent(MaybeNumber share);    // 0.213 -> "21 %", 0.034 -> "3.4 %": for sentences
std::string format_skew(MaybeNumber percent);     // 346.2 -> "+346 %"
std::string format_bytes(MaybeNumber bytes);      // "1.50 GiB": powers of two, as torch counts
std::string format_count(uint64_t count);         // 1234567 -> "1,234,567"
std::string format_steps(uint64_t count);         // "1 step", "1,234 steps"
std::string format_seconds(MaybeNumber seconds);  // "0.42 s", "31.2 s", "4 min 05 s", "3 h 12 min", "4 days 2 h"

// "rank 1", "ranks 0, 2, 3", "ranks 0–6, 9 and 3 more"; "no rank".
std::string format_ranks(const std::vector<int>& ranks);

// The first letter in upper case: where a phrase begins a sentence.
std::string capitalized(std::string text);

}  // namespace stepscope
