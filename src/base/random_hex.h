// Random text for names that nobody else may guess or repeat.
#pragma once

#include <sys/random.h>

#include <cstddef>
#include <string>

#include "base/clock.h"

namespace stepscope {

// `bytes` random bytes as lower-case hex.
inline std::string random_hex(size_t bytes) {
  std::string result;
  uint64_t fallback = realtime_ns() * 0x9e3779b97f4a7c15ull;
  for (size_t i = 0; i < bytes; ++i) {
    unsigned char byte;
    if (getrandom(&byte, 1, GRND_NONBLOCK) != 1) {  // early boot: unique is enough there
      fallback = fallback * 6364136223846793005ull + 1442695040888963407ull;
      byte = static_cast<unsigned char>(fallback >> 56);
    }
    result += "0123456789abcdef"[byte >> 4];
    result += "0123456789abcdef"[byte & 15];
  }
  return result;
}

}  // namespace stepscope
