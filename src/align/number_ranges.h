// "0-7,16" or "0-56:8,60" as the numbers it stands for: as hooks write ranks of a group and cores of a process
// (hooks/groups.py, ranges). Trusts no byte: ends at what it cannot read. Pure.
#pragma once

#include <string>
#include <vector>

namespace stepscope {

std::vector<int> parse_ranges(const std::string& text);

}  // namespace stepscope
