// What tells the size of a step's batch, the best first.
#pragma once

#include <array>

#include "align/step_table.h"

namespace stepscope {

struct BatchSize {
  double Cell::* size;
  const char *unit, *units;
};

inline constexpr std::array<BatchSize, 4> kBatchSizes = {
    {{&Cell::tokens, "token", "tokens"},
     {&Cell::input_elements, "element of input", "elements of input"},
     {&Cell::samples, "sample", "samples"},
     {&Cell::h2d_bytes, "byte copied", "bytes copied"}}};

}  // namespace stepscope
