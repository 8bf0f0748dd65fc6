// The settings as they are for a command given here and now: its flags, this process's environment, and stepscope.toml
// of the current folder or above.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "cli/settings.h"

namespace stepscope {

std::optional<std::string> from_environment(const std::string& name);

// `flags`: given settings by name. Names in the file that are no settings are said on stderr.
Result<Settings> settings_here(const std::map<std::string, std::string>& flags);

}  // namespace stepscope
