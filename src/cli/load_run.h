// The summary of a run that is over, from whatever names it. Failure: one line that names the path.
#pragma once

#include <string>

#include "base/result.h"
#include "diagnose/snapshot.h"

namespace stepscope {

// `path`: a run folder (its final_summary.json, else worked out again from the rings that were kept), a summary file,
// or a folder of rings.
Result<Snapshot> load_run(const std::string& path);

}  // namespace stepscope
