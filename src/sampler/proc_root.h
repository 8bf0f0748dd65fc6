// Where the kernel's files are. Injectable so that tests run on recorded trees.
#pragma once

#include <string>

namespace stepscope {

struct ProcRoot {
  std::string proc = "/proc";
  std::string sys = "/sys";
};

}  // namespace stepscope
