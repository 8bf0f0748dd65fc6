#include "cli/settings_here.h"

#include <unistd.h>

#include <cstdlib>

#include "base/file.h"
#include "cli/agent_link.h"
#include "cli/run_places.h"
#include "cli/settings_file.h"

namespace stepscope {

std::optional<std::string> from_environment(const std::string& name) {
  const char* text = std::getenv(name.c_str());
  return text ? std::optional<std::string>(text) : std::nullopt;
}

Result<Settings> settings_here(const std::map<std::string, std::string>& flags) {
  const FoundSettings found = find_settings_file(current_folder(), ::geteuid());
  for (const std::string& line : found.refused) say(line);
  const std::string& path = found.path;
  std::string text;
  if (!path.empty()) {
    auto read = read_file(path, kMaxSettingsBytes + 1);
    if (!read) return std::unexpected(read.error());
    text = std::move(*read);
  }
  auto flag = [&](const std::string& name) -> std::optional<std::string> {
    const auto found = flags.find(name);
    return found == flags.end() ? std::nullopt : std::optional(found->second);
  };
  auto resolved = resolve_settings(flag, from_environment, path, text);
  if (!resolved) return std::unexpected(resolved.error());
  for (const std::string& warning : resolved->warnings) say(warning);
  return resolved->settings;
}

}  // namespace stepscope
