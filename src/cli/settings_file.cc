#include "cli/settings_file.h"

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

namespace stepscope {
namespace {

std::unexpected<Error> at_line(int line, std::string_view what) {
  return fail("line " + std::to_string(line) + ": " + std::string(what.substr(0, what.find('\n'))));
}

int line_of(const toml::source_region& region) { return std::max(1, static_cast<int>(region.begin.line)); }

std::optional<std::variant<std::string, double, bool>> scalar(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* flag = node.as_boolean()) return flag->get();
  const auto number = node.is_number() ? node.value<double>() : std::nullopt;
  if (number && std::isfinite(*number)) return *number;
  return std::nullopt;
}

Status collect(const toml::table& table, const std::string& section, std::vector<SettingEntry>& entries) {
  std::set<std::string> seen;
  for (const auto& [name, node] : table) {
    std::string key(name.str());
    if (const toml::table* inner = node.as_table()) {
      const std::string path = section.empty() ? key : section + "." + key;
      if (Status status = collect(*inner, path, entries); !status) return status;
      continue;
    }
    std::replace(key.begin(), key.end(), '-', '_');
    const int line = line_of(name.source());
    auto value = scalar(node);
    if (!value) return at_line(line, key + " must be a \"string\", a number, true or false");
    if (!seen.insert(key).second) return at_line(line, key + " is set twice");
    entries.push_back({section, std::move(key), std::move(*value), line});
  }
  return {};
}

}  // namespace

Result<std::vector<SettingEntry>> parse_settings(std::string_view text) {
  if (text.size() > kMaxSettingsBytes) return at_line(1, "the file is larger than 64 KiB");
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) return at_line(line_of(parsed.error().source()), parsed.error().description());
  std::vector<SettingEntry> entries;
  if (Status status = collect(parsed.table(), "", entries); !status) return std::unexpected(status.error());
  std::ranges::stable_sort(entries, {}, &SettingEntry::line);
  return entries;
}

}  // namespace stepscope
