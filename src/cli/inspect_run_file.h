// What is in a run file (run.db): its run, attempts, ranks, steps, signals, findings and what takes the room. JSON, one
// object a line.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"

namespace stepscope {

// Reads every step once (about 0.2 us per rank and step). Failure: one line that names the path.
Result<std::vector<nlohmann::ordered_json>> inspect_run_file(const std::string& path);

}  // namespace stepscope
