// The snapshot as final_summary.json (docs/schema/final_summary.schema.json). Pure: same snapshot, same bytes.
//
// Units are in the names; `share` is 0..1; what was not measured is null, and so are NaN and infinities. Times carry
// nanoseconds (six decimals of a millisecond): round(x_ms * 1e6) of the categories of a rank add up to its wall_ms
// exactly (up to 46 days, where a double ends). Cost: about 1 kB and 10 us per rank. Strings are made valid UTF-8.
#pragma once

#include <string>

#include "diagnose/snapshot.h"
#include "report/text_options.h"

namespace stepscope {

inline constexpr const char* kSummarySchemaVersion = "1.0";

// The step series in the file is bounded to about this many numbers; the newest steps are kept.
inline constexpr size_t kMaxRecentCells = 20'000;

std::string summary_json(const Snapshot& snapshot, const TextOptions& options = {});

// One finding, the same object as in the summary; on one line. For the API and the exporters.
std::string finding_json(const Finding& finding);

}  // namespace stepscope
