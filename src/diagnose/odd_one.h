// Of ranks that stand in different operations: who does what it did never before at this place, while the others go on
// as all did. Pure.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "diagnose/standing.h"

namespace stepscope {

using StandsIn = std::pair<const RankStanding*, const IssuedOp*>;

// The odd ones, ascending. Empty: what was before does not tell. It tells where each rank either went on to an
// operation to which it never did from the one before, though it did twice what the others do now, or did so twice at
// least, and the former are no majority. Whose data ended, or may have ended where no loader tells, is not odd: it may
// have had too little, or the others too much.
std::vector<int> odd_ones(const std::vector<StandsIn>& calls);

}  // namespace stepscope
