// Numbers of torch's floating point types as they lie in memory. Pure; a few ns.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace stepscope::recorder {

enum class ScalarFormat : uint16_t { kNone, kHalf, kBfloat16, kFloat, kDouble };

constexpr uint32_t bytes_of(ScalarFormat format) {
  switch (format) {
    case ScalarFormat::kHalf:
    case ScalarFormat::kBfloat16: return 2;
    case ScalarFormat::kFloat: return 4;
    case ScalarFormat::kDouble: return 8;
    case ScalarFormat::kNone: break;
  }
  return 0;
}

inline double half_number(uint16_t bits) {
  const int exponent = bits >> 10 & 0x1f, fraction = bits & 0x3ff;
  double value = std::ldexp(exponent == 0 ? fraction : fraction + 1024, (exponent == 0 ? 1 : exponent) - 25);
  if (exponent == 0x1f)
    value = fraction ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
  return bits >> 15 ? -value : value;
}

// Of the bytes_of(format) bytes at `from`; not-a-number for kNone.
inline double scalar_at(const void* from, ScalarFormat format) {
  uint64_t bits = 0;
  std::memcpy(&bits, from, bytes_of(format));
  switch (format) {
    case ScalarFormat::kHalf: return half_number(static_cast<uint16_t>(bits));
    case ScalarFormat::kBfloat16: return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
    case ScalarFormat::kFloat: return std::bit_cast<float>(static_cast<uint32_t>(bits));
    case ScalarFormat::kDouble: return std::bit_cast<double>(bits);
    case ScalarFormat::kNone: break;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace stepscope::recorder
