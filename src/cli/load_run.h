// The summary of a run, from whatever names it. Failure: one line that names the path.
#pragma once

#include <string>

#include "base/result.h"
#include "diagnose/snapshot.h"

namespace stepscope {

struct LoadedRun {
  Snapshot snapshot;
  std::string note;  // why it is not the summary that was written, and where it is from; "" = it is
};

// `path`: a run folder, a summary file, a run file (run.db) or a folder of rings. Of a folder: its final_summary.json;
// where that is missing or cannot be read, run.db; else the rings that were kept. With `rebuild`, run.db first, and its
// steps are judged again even where a summary stands in it.
Result<LoadedRun> load_run(const std::string& path, bool rebuild = false);

// An SQLite file, by its first bytes or its name.
bool is_run_file(const std::string& path);

}  // namespace stepscope
