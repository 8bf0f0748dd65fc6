// One line of `stepscope doctor`: something that stepscope needs or uses, whether it can be had here, and if not, what
// that means for the user.
#pragma once

#include <string>
#include <vector>

namespace stepscope {

enum class CheckState { kOk, kDegraded, kMissing };
const char* name(CheckState state);

struct Check {
  std::string name;
  CheckState state = CheckState::kOk;
  std::string text;        // what was found, or the reason and its meaning
  bool essential = false;  // missing: nothing can be observed
};

// The machine: shared memory, logs folder, kernel interfaces, CUDA driver, NVML. Reads and makes one empty folder that
// is removed again; sleeps for some milliseconds.
std::vector<Check> check_machine(const std::string& logs_dir);

// The training's Python, asked by running it with the hooks' environment (at most a minute: torch is imported).
std::vector<Check> check_python(const std::string& python, const std::string& inject_folder);

// False when an essential check is missing.
bool can_observe(const std::vector<Check>& checks);

}  // namespace stepscope
