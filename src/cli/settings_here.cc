#include "cli/settings_here.h"

#include <unistd.h>

#include <cctype>
#include <cstdlib>

#include "agent/aggregator_notes.h"
#include "base/file.h"
#include "cli/agent_link.h"
#include "cli/run_places.h"
#include "cli/settings_file.h"

namespace stepscope {

std::optional<std::string> from_environment(const std::string& name) {
  const char* text = std::getenv(name.c_str());
  return text ? std::optional<std::string>(text) : std::nullopt;
}

namespace {

// What lets the nodes of a job in must be the same on all of them, and is asked for where it is needed.
Status read_secret(Settings& settings) {
  const std::string& path = settings.secret_file;
  const bool fixed_place = !settings.aggregator.empty() && settings.aggregator != "off";
  if (path.empty())
    return fixed_place ? fail("--aggregator needs --secret-file: a file with the same 16 to 256 letters on all nodes")
                       : Status{};
  auto text = read_file(path, 1024);
  if (!text) return fail("--secret-file: " + text.error().message);
  while (!text->empty() && std::isspace(static_cast<unsigned char>(text->back()))) text->pop_back();
  if (!is_secret(*text)) return fail("--secret-file: " + path + " must hold 16 to 256 letters, digits, - or _");
  settings.node_secret = std::move(*text);
  return {};
}

}  // namespace

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
  if (Status status = read_secret(resolved->settings); !status) return std::unexpected(status.error());
  return resolved->settings;
}

}  // namespace stepscope
