// Pearson's correlation of two series of the same length: 1 where one follows the other along a line, 0 where one of
// them does not vary. Pure, O(n), in two passes.
#pragma once

#include <vector>

namespace stepscope {

double correlation(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace stepscope
