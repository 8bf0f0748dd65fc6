// How deep a JSON text nests and how many values it may hold, counted before anything is built of it: a parser's stack
// and memory are for trusted sizes. Pure; one pass, no allocation.
#pragma once

#include <cstddef>
#include <string_view>

namespace stepscope {

struct JsonLimits {
  size_t depth = 0, values = 0;
};

// The first of the limits that the text exceeds. Text that is no JSON is counted likewise; the parser refuses it.
enum class JsonExcess { kNone, kDepth, kValues };
JsonExcess json_excess(std::string_view json, const JsonLimits& limits);

}  // namespace stepscope
