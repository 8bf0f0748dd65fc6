// The name of this host; "" where it is not to be had.
#pragma once

#include <unistd.h>

#include <string>

namespace stepscope {

inline std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "";
}

}  // namespace stepscope
