// stepscope.toml as a flat list: scalar values with their section and line. toml++ reads it; what no setting can be
// (lists, dates) is refused. Pure; bounded input; trusts no byte (settings_fuzz.cc).
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"

namespace stepscope {

struct SettingEntry {
  std::string section;  // "" at the top, "a.b" for a table within a table
  std::string key;      // dashes become underscores
  std::variant<std::string, double, bool> value;
  int line = 0;
};

inline constexpr size_t kMaxSettingsBytes = 64 * 1024;

// In the order of the file. Error: "line 3: …".
Result<std::vector<SettingEntry>> parse_settings(std::string_view text);

}  // namespace stepscope
