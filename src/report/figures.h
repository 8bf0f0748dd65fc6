// Figures and names of a snapshot as people read them: base/text_format.h for what carries its unit in its name. Pure;
// shared by every view. "–" stands for what was not measured.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "align/category.h"
#include "base/text_format.h"

namespace stepscope {

// By the unit at the end of the name: "rss_peak_bytes" -> "1.50 GiB", "read_bytes_per_s" -> "2.18 MiB/s".
std::string format_value(std::string_view name, MaybeNumber value);

// "straggler_wait" -> "straggler wait", "h2d" -> "host to device", "unattributed" -> "unattributed".
std::string category_label(std::string_view category);
// "stall_ms" -> "stall", "rss_peak_bytes" -> "rss peak": the name without its unit.
std::string value_label(std::string_view name);

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
