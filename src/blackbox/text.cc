#include "blackbox/text.h"

#include <cstdint>

namespace stepscope::blackbox {
namespace {

// Length of the valid sequence at the start of `s` and its code point; length 0 when there is none.
struct Decoded {
  size_t length;
  uint32_t point;
};

Decoded decode(std::string_view s) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(s[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return {1, first};
  const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 0;
  if (length == 0 || first > 0xf4 || s.size() < length) return {0, 0};
  uint32_t point = first & (0x7fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {0, 0};
    point = point << 6 | (byte(i) & 0x3fu);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (point < kLeast[length] || point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff)) return {0, 0};
  return {length, point};
}

bool is_control(uint32_t p) { return p < 0x20 || (p >= 0x7f && p < 0xa0) || p == 0x2028 || p == 0x2029; }

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Decoded d = decode(text);
    if (d.length == 0) {
      out.push_back('?');
    } else if (is_control(d.point)) {
      out.push_back(' ');
    } else {
      out.append(text.substr(0, d.length));
    }
    text.remove_prefix(d.length ? d.length : 1);
  }
  return out;
}

}  // namespace stepscope::blackbox
