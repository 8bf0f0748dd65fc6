#include "tui/terminal_kind.h"

#include <algorithm>
#include <array>

namespace stepscope::tui {

std::string no_view_reason(const Variable& variable) {
  const std::string term = variable("TERM").value_or("");
  if (term.empty()) return "TERM is not set";
  static constexpr std::array<std::string_view, 3> kCannot = {"dumb", "unknown", "emacs"};
  return std::ranges::find(kCannot, term) == kCannot.end() ? "" : "TERM is '" + term + "'";
}

ColorDepth color_depth(const Variable& variable) {
  if (!variable("NO_COLOR").value_or("").empty()) return ColorDepth::kNone;
  const std::string term = variable("TERM").value_or(""), colors = variable("COLORTERM").value_or("");
  if (colors == "truecolor" || colors == "24bit" || term.ends_with("-direct")) return ColorDepth::kTrue;
  if (term.find("256color") != std::string::npos) return ColorDepth::k256;
  static constexpr std::array<std::string_view, 5> kMany = {"kitty", "alacritty", "foot", "ghostty", "wezterm"};
  for (const std::string_view name : kMany)
    if (term.find(name) != std::string::npos) return ColorDepth::kTrue;
  static constexpr std::array<std::string_view, 3> kNone = {"vt100", "vt102", "vt220"};
  return std::ranges::find(kNone, term) == kNone.end() ? ColorDepth::k16 : ColorDepth::kNone;
}

}  // namespace stepscope::tui
