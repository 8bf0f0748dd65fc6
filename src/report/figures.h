// Numbers and names as people read them. Pure; shared by every view. "–" stands for what was not measured.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "align/category.h"
#include "diagnose/snapshot.h"

namespace stepscope {

inline constexpr std::string_view kNotMeasured = "–";

using MaybeNumber = std::optional<double>;  // nullopt and NaN: not measured

std::string format_ms(MaybeNumber ms);            // "0.04 ms", "51.9 ms", "1.25 s"
std::string format_ms_bare(MaybeNumber ms);       // the same digits without unit, always ms: "0.04", "51.9", "1250"
std::string format_share(MaybeNumber share);      // 0.213 -> "21.3 %"; "<0.1 %" for the tiny
std::string format_percent(MaybeNumber share);    // 0.213 -> "21 %", for sentences
std::string format_skew(MaybeNumber percent);     // 346.2 -> "+346 %"
std::string format_bytes(MaybeNumber bytes);      // "1.50 GiB"
std::string format_count(uint64_t count);         // 1234567 -> "1,234,567"
std::string format_seconds(MaybeNumber seconds);  // "0.42 s", "31.2 s", "4 min 05 s", "3 h 12 min"
std::string format_value(std::string_view name, MaybeNumber value);  // by the unit at the end of the name

// "straggler_wait" -> "straggler wait", "h2d" -> "host to device", "unattributed" -> "unattributed".
std::string category_label(std::string_view category);
// "stall_ms" -> "stall", "rss_peak_bytes" -> "rss peak": the name without its unit.
std::string value_label(std::string_view name);

// "rank 1", "ranks 0, 2, 3", "ranks 0–6 and 9 more".
std::string format_ranks(const std::vector<int>& ranks);

// Place of a phase in tables: ledger order, unknown names after all known ones.
size_t phase_order(std::string_view phase);

// One slice of a ledger, for bars and legends. Largest first is the caller's choice; here: ledger order, no zeros.
struct LedgerSlice {
  Category category;
  int64_t ns = 0;
  double share = 0;  // of the ledger's sum
};
std::vector<LedgerSlice> ledger_slices(const LedgerNs& ledger);

}  // namespace stepscope
