// One owner per lost millisecond. Findings speak of the same time: a sum and its parts, a rank that is late and what
// takes its core, a bound of the whole job and the collectives in it. Here each is either a root, which owns what it
// costs, or the effect of a root (explained_by), which is shown under it, not counted again and never primary.
//
//   claim(f)     the categories of the ledger that f's cost is time of; of ranks that others wait for, waiting, too
//   a beside b   they claim a category in common, of the same ranks or of the whole job
//   order        what is named closely owns first: ranks and events before sums (kSumsUp), dearer before cheaper
//
// In this order each finding owns what is left of its cost by those beside it. Where they own half of it or more it is
// the effect of the one that owns most. All roots together own no more than the whole time. A kind that shows the
// effect of others (kShowsEffects) and has no cost of its own is explained by the dearest root that can bring it about.
//
// Pure; O(findings²).
#pragma once

#include <cstdint>
#include <vector>

#include "align/category.h"
#include "diagnose/finding.h"

namespace stepscope {

// Bit per category.
using Claim = uint32_t;
constexpr Claim bit_of(Category c) { return 1u << index(c); }

Claim claim_of(const Finding& f);
// Its ranks make others wait.
bool delays_others(const Finding& f);

// Takes from the costs of roots what others own, and returns for each finding the index of the root that explains it,
// -1 of a root.
std::vector<int> share_out(std::vector<Finding>& findings);

}  // namespace stepscope
