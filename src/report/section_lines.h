// What was measured of a part of the run (system, process, step memory), as a few labelled lines: "CPU | 48 % of 8
// cores busy, at most 90 %". Values that no line knows are shown by their names, so that nothing measured is hidden.
// Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace stepscope {

using LabelledLines = std::vector<std::pair<std::string, std::string>>;

LabelledLines section_lines(const std::map<std::string, std::optional<double>>& values);

}  // namespace stepscope
