// What tells the size of a step's batch, the best first.
#pragma once

#include <array>
#include <utility>

#include "align/step_table.h"

namespace stepscope {

inline constexpr std::array<std::pair<double Cell::*, const char*>, 3> kBatchSizes = {
    {{&Cell::tokens, "token"}, {&Cell::samples, "sample"}, {&Cell::h2d_bytes, "byte copied"}}};

}  // namespace stepscope
