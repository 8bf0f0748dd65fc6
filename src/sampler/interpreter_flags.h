// Python options, in a launch command or of a process, that keep our hooks out: the hooks come in through PYTHONPATH
// and, where stepscope is installed in the training's own environment, through a .pth file there. Pure.
#pragma once

#include <string>
#include <vector>

namespace stepscope {

// -S: no site, neither way is open. -I and -E: PYTHONPATH is not looked at, the .pth file is.
enum class HooksKeptOut { kNo, kPathIgnored, kNoSite };

// Looks at the options of every word of the command that names a Python interpreter, up to its script, -c or -m.
HooksKeptOut hooks_kept_out(const std::vector<std::string>& command);

// The same for the arguments of one process that is known to be Python, its own name first.
HooksKeptOut hooks_kept_out_of(const std::vector<std::string>& interpreter);

// What to tell the user, "" = nothing. `pth_installed`: the .pth file lies beside our package.
std::string kept_out_word(HooksKeptOut how, bool pth_installed);

}  // namespace stepscope
