// Settings text from anywhere: parsed or refused with a line number, never a crash, never a half-read value. The same
// text is also the value of one setting (first byte), by flag and by variable.
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "cli/settings.h"
#include "cli/settings_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto entries = stepscope::parse_settings(text);
  if (!entries && !entries.error().message.starts_with("line ")) std::abort();
  const auto none = [](const std::string&) { return std::optional<std::string>(); };
  const auto resolved = stepscope::resolve_settings(none, none, "stepscope.toml", text);
  if (!entries && resolved) std::abort();
  if (resolved && !(resolved->settings.interval_s >= 0.1)) std::abort();
  if (!resolved && resolved.error().message.find('\n') != std::string::npos) std::abort();
  if (size == 0) return 0;
  static const std::vector<std::string> kNames = {
      "mode",           "run_name",   "logs_dir", "interval",   "html_report",  "keep_rings",
      "disable",        "compat",     "stacks",   "on_hang",    "hang_timeout", "silence",
      "flops_per_step", "peak_flops", "set",      "aggregator", "secret_file"};
  const std::string& name = kNames[data[0] % kNames.size()];
  const std::string value = text.substr(1);
  const auto as_flag = [&](const std::string& asked) { return asked == name ? std::optional(value) : std::nullopt; };
  const auto as_variable = [&](const std::string& asked) {
    std::string variable = "STEPSCOPE_" + name;
    for (char& c : variable) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    return asked == variable ? std::optional(value) : std::nullopt;
  };
  for (const auto& result :
       {stepscope::resolve_settings(as_flag, none, "", ""), stepscope::resolve_settings(none, as_variable, "", ""),
        stepscope::resolve_settings(none, none, "stepscope.toml",
                                    name + " = " + value + "\n[thresholds]\nwarn_share = " + value)})
    if (!result && result.error().message.empty()) std::abort();
  return 0;
}
