// Text with figures in it, by fmt: formatted("rank {} waits {:.1f} ms", rank, ms). The format is checked where it is
// written; the work is done in one translation unit, since fmt's code costs every file that holds it five seconds of
// compiling.
#pragma once

#include <fmt/core.h>

#include <string>

namespace stepscope {

std::string format_arguments(fmt::string_view text, fmt::format_args arguments);

template <class... Arguments>
std::string formatted(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  return format_arguments(text, fmt::make_format_args(arguments...));
}

}  // namespace stepscope
