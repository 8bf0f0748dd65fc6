// What exactly is started: the command line and the environment of the training. Pure.
#pragma once

#include <string>
#include <vector>

#include "cli/run_args.h"

namespace stepscope {

// The user's command as given, `python script …`, or `python -m torch.distributed.run … script …` when any launch
// option is set. A launch on one node that names no master gets --standalone: a free port, so that two runs at once
// on one machine do not meet.
std::vector<std::string> training_command(const RunArgs& args, const TorchrunOptions& torchrun,
                                          const std::string& python);

// What the environment of the training says about us. Empty = not set.
struct TrainingVariables {
  std::string shm_dir, run_dir, nonce, inject_folder, compat;
  bool stacks = true;  // ranks may be asked where they are
};

// The user's environment plus ours.
std::vector<std::string> training_environment(std::vector<std::string> users, const TrainingVariables& ours);

// The user's environment without any trace of ours, marked so that stepscope.init() in the script stays off too.
// With `compat` the Python part goes along for its names alone: a script that imports traceml runs bare, too.
std::vector<std::string> bare_environment(std::vector<std::string> users, const std::string& inject_folder = "",
                                          const std::string& compat = "");

}  // namespace stepscope
