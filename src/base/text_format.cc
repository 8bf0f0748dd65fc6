#define FMT_HEADER_ONLY  // fmt without its shared library
#include "base/text_format.h"

#include <fmt/format.h>

namespace stepscope {

std::string format_arguments(fmt::string_view text, fmt::format_args arguments) {
  return fmt::vformat(text, arguments);
}

}  // namespace stepscope
