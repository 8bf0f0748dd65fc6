// One record of a rank as the reader side sees it: the same 48 bytes as blackbox::Record. align knows no files, so the
// agent copies them over.
#pragma once

#include <cstdint>

namespace stepscope {

struct Event {
  uint64_t time_ns = 0;
  uint16_t kind = 0;  // pack_kind(Kind, Edge), blackbox/event_kind.h
  uint16_t flags = 0;
  uint32_t thread = 0;
  uint64_t a = 0, b = 0, c = 0, d = 0;
};

}  // namespace stepscope
