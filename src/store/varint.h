// Variable-length integers (LEB128) and zigzag, as in the blobs of the run file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace stepscope::store {

constexpr uint64_t zigzag(int64_t value) {
  return (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63);
}
constexpr int64_t unzigzag(uint64_t value) { return static_cast<int64_t>((value >> 1) ^ (~(value & 1) + 1)); }

inline void put_varint(std::string& out, uint64_t value) {
  while (value >= 0x80) {
    out += static_cast<char>(value | 0x80);
    value >>= 7;
  }
  out += static_cast<char>(value);
}

// Takes the integer off the front of `in`; nullopt when it does not end or does not fit.
inline std::optional<uint64_t> take_varint(std::string_view& in) {
  uint64_t value = 0;
  for (unsigned i = 0; i < 10; ++i) {
    if (i >= in.size()) return std::nullopt;
    const auto byte = static_cast<uint8_t>(in[i]);
    if (i == 9 && byte > 1) return std::nullopt;
    value |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
    if (byte < 0x80) {
      in.remove_prefix(i + 1);
      return value;
    }
  }
  return std::nullopt;
}

}  // namespace stepscope::store
