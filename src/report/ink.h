// Ink: how a piece of text stands out, and what that is on a terminal of so many colours. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "diagnose/finding.h"

namespace stepscope {

enum class ColorDepth : unsigned char { kNone, k16, k256, kTrue };

struct Ink {
  bool bold = false, dim = false, reverse = false;
  int16_t color = -1;  // of the 256-colour palette; below 16 the user's own; -1 = as everything
  uint32_t rgb = 0;    // instead of `color` where there are 24 bits; 0 = `color` there, too

  bool operator==(const Ink&) const = default;
};

// SGR parameters, "1;31"; "" = plain. Without colours bold, dim and reverse remain.
std::string sgr(const Ink& ink, ColorDepth depth = ColorDepth::k256);

namespace ink {
inline constexpr Ink kPlain{}, kBold{.bold = true}, kDim{.dim = true}, kRed{.bold = true, .color = 1},
    kYellow{.bold = true, .color = 3}, kGreen{.color = 2}, kCyan{.color = 6};
Ink of(Severity severity);
}  // namespace ink

}  // namespace stepscope
