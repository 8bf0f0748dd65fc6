#include "report/ink.h"

#include <array>

#include "base/text_format.h"

namespace stepscope {
namespace {

using Rgb = std::array<int, 3>;

// The palette above 15 is the same everywhere: a cube of 6 × 6 × 6, then greys.
Rgb rgb_of(int color) {
  if (color >= 232) return {8 + 10 * (color - 232), 8 + 10 * (color - 232), 8 + 10 * (color - 232)};
  const auto part = [](int step) { return step == 0 ? 0 : 55 + 40 * step; };
  return {part((color - 16) / 36), part((color - 16) / 6 % 6), part((color - 16) % 6)};
}

// The nearest of the first 16 by hue and brightness.
int of_16(int color) {
  if (color < 16) return color;
  const Rgb rgb = rgb_of(color);
  int highest = 0, lowest = 255;
  for (const int part : rgb) highest = std::max(highest, part), lowest = std::min(lowest, part);
  if (highest - lowest < 30) return highest > 220 ? 15 : highest > 150 ? 7 : highest > 60 ? 8 : 0;
  const int middle = (highest + lowest) / 2;
  const int hue = (rgb[0] > middle ? 1 : 0) | (rgb[1] > middle ? 2 : 0) | (rgb[2] > middle ? 4 : 0);
  return lowest > 80 ? hue + 8 : hue;
}

std::string color_parameters(const Ink& ink, ColorDepth depth) {
  if (depth == ColorDepth::kTrue && ink.rgb != 0)
    return formatted("38;2;{};{};{}", ink.rgb >> 16 & 255, ink.rgb >> 8 & 255, ink.rgb & 255);
  const int color = depth == ColorDepth::k16 ? of_16(ink.color) : ink.color;
  return color < 8    ? formatted("{}", 30 + color)
         : color < 16 ? formatted("{}", 82 + color)
                      : formatted("38;5;{}", color);
}

}  // namespace

std::string sgr(const Ink& ink, ColorDepth depth) {
  std::string out;
  const auto add = [&](const std::string& parameter) { out += (out.empty() ? "" : ";") + parameter; };
  if (ink.bold) add("1");
  if (ink.dim) add("2");
  if (ink.reverse) add("7");
  if (ink.color >= 0 && depth != ColorDepth::kNone) add(color_parameters(ink, depth));
  return out;
}

Ink ink::of(Severity severity) {
  return severity == Severity::kCrit ? kRed : severity == Severity::kWarn ? kYellow : kGreen;
}

}  // namespace stepscope
