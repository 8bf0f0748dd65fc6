#include "base/json_bounds.h"

namespace stepscope {

JsonExcess json_excess(std::string_view json, const JsonLimits& limits) {
  size_t depth = 0, values = 0;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
      continue;
    }
    if (c == '"') in_string = true;
    if (c == ',' || c == '[' || c == '{') ++values;
    if (c == '[' || c == '{') ++depth;
    if ((c == ']' || c == '}') && depth > 0) --depth;
    if (depth > limits.depth) return JsonExcess::kDepth;
    if (values > limits.values) return JsonExcess::kValues;
  }
  return JsonExcess::kNone;
}

}  // namespace stepscope
