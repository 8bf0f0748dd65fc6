// For fuzzers: whatever is refused is refused in one line that says something.
#pragma once

#include <cstdlib>
#include <string>

#include "base/result.h"

namespace stepscope::examples {

inline void expect_one_line(const Error& error) {
  if (error.message.empty() || error.message.find('\n') != std::string::npos) std::abort();
}

}  // namespace stepscope::examples
