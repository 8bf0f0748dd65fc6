// The summary of a run as files in its folder.
#pragma once

#include <span>
#include <string>

#include "agent/run_folder.h"
#include "diagnose/snapshot.h"
#include "report/text_options.h"

namespace stepscope {

struct WrittenReport {
  TextOptions places;  // the folder, and the files that are really there
  std::string text;    // as it was written, without colour; names those files
};

// Writes the formats of every run and those of `asked` (report/reporters.h). What cannot be written is left out, and
// folder.first_error() says why.
WrittenReport write_report(const Snapshot& snapshot, std::span<const std::string> asked, RunFolder& folder);

}  // namespace stepscope
