// Settings text from anywhere: parsed or refused with a line number, never a crash, never a half-read value.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

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
  return 0;
}
