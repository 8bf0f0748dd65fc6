// stepscope.toml: the part of TOML that settings need - comments, [section], key = string | number | true | false.
// What TOML has beyond that (arrays, tables in braces, dates, multi-line strings) is refused with its line number,
// never half understood. Pure; bounded input; trusts no byte (settings_fuzz.cc).
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"

namespace stepscope {

struct SettingEntry {
  std::string section;  // "" at the top
  std::string key;      // dashes become underscores
  std::variant<std::string, double, bool> value;
  int line = 0;
};

inline constexpr size_t kMaxSettingsBytes = 64 * 1024;

// Error: "line 3: …".
Result<std::vector<SettingEntry>> parse_settings(std::string_view text);

}  // namespace stepscope
