// `stepscope run`: the thin parent of a training. Makes the run's folders, starts the command in our own process group
// with inherited files, signal dispositions, mask and working directory, starts the agent beside it, passes on signals,
// waits, and returns what the command returned - whatever happened to us.
#pragma once

#include <string>
#include <vector>

#include "base/subprocess.h"
#include "cli/settings.h"

namespace stepscope {

struct LaunchRequest {
  std::vector<std::string> command;  // what is started
  Settings settings;
  std::string own_binary;
  std::string inject_hint;  // STEPSCOPE_PYTHON_DIR
  std::string version;
};

// Returns the exit code for the shell: the command's own, 128+n for a signal, 127 or 126 when it cannot be started.
int launch(const LaunchRequest& request, const SignalState& at_start);

}  // namespace stepscope
