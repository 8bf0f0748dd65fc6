// Records that prove themselves, for tests, benchmarks and the fuzzer: d seals the other words.
#pragma once

#include "blackbox/layout.h"

namespace stepscope::blackbox {

inline uint64_t seal_of(const Record& r) {
  uint64_t h = r.time_ns * 0x9e3779b97f4a7c15ull;
  for (uint64_t w : {r.a, r.b, r.c, uint64_t{r.kind}, uint64_t{r.flags}, uint64_t{r.thread}})
    h = (h ^ w) * 0xc2b2ae3d27d4eb4full, h ^= h >> 29;
  return h;
}

inline Record sealed(uint64_t writer, uint64_t number) {
  Record r{.time_ns = number, .kind = 4, .flags = 7, .thread = static_cast<uint32_t>(writer), .a = writer, .b = number,
           .c = ~number};
  r.d = seal_of(r);
  return r;
}

inline bool is_sealed(const Record& r) { return r.d == seal_of(r); }

}  // namespace stepscope::blackbox
