// Which run a word on the command line means: one that goes on on this machine, or one that is kept in a folder.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "agent/live_runs.h"
#include "base/result.h"

namespace stepscope {

struct FoundRun {
  std::optional<LiveRun> live;
  std::string path;  // of a kept one: folder, summary or run file
};

// `word`: pid of a launcher, rank or any process of a live run; name or folder of a live run; folder or file of a kept
// one, or its name below `logs_dir`. "": the only live run. Failure: one line that says what there is instead.
Result<FoundRun> find_run(const std::string& word, const std::string& logs_dir, const std::vector<LiveRun>& live);

// "a (pid 4100), b (pid 4200)".
std::string listed(const std::vector<LiveRun>& runs);

}  // namespace stepscope
