// Through what a change of step times goes: through some phases, through the model's compute, or through everything.
//
// A program that changes is felt in some of its phases: longer sequences in forward and backward, an unfrozen layer in
// backward, a new metric between the phases. A machine that becomes slower (clock, heat, caches, memory and hardware
// threads shared with others, the neighbours of a virtual machine) slows down everything that the host does, the
// optimizer and what lies between the phases too. Where forward and backward alone grow by the same factor, both are
// possible: heavy kernels feel a shared cache or a lower clock first.
//
// Pure. O(categories).
#pragma once

#include <array>

#include "align/category.h"

namespace stepscope {

struct PhaseLevels {
  std::array<double, kCategoryCount> before_ms{}, after_ms{};  // of a step; categories of stalls are not looked at
};

enum class Spread { kSome, kCompute, kAll };

// `alike_share`: of the whole's growth, which each part must reach to have grown with it. Parts below a hundredth of
// the step or 10 us are too small to tell; kAll needs three parts, one of them neither forward nor backward.
Spread spread_of(const PhaseLevels& levels, double alike_share);

}  // namespace stepscope
