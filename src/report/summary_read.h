// Reads final_summary.json back into a Snapshot, for `report` and `compare`. The text may come from anywhere and is not
// trusted: size, nesting and number of values are bounded, no exception leaves, and what is wrong is said in one line.
//
// Optional fields may be missing or null; unknown fields are ignored (a newer minor schema version). A field of the
// wrong type is an error. Times come back to the nanosecond. Cost: about 20 us per kB.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "diagnose/snapshot.h"

namespace stepscope {

inline constexpr size_t kMaxSummaryBytes = 64u << 20;
inline constexpr size_t kMaxSummaryValues = 4'000'000;
inline constexpr size_t kMaxSummaryDepth = 32;

// `source` names the text in error messages, e.g. the path.
Result<Snapshot> read_summary(std::string_view json, std::string_view source = "summary");

}  // namespace stepscope
