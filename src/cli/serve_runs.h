// How the server reads a run: as every verb does (cli/load_run.h).
#pragma once

#include <string>

#include "serve/run_state.h"

namespace stepscope {

Result<LoadedSnapshot> load_for_server(const std::string& path);

}  // namespace stepscope
