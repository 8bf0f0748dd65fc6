// Which rank is late by its own work, block of steps by block of steps.
//
// Two independent signals per rank and block (docs/design.md, Stragglers):
//   own time   D(k) = own(rank, k) - median of the others' own time in step k; local, not inflated by waiting
//   blame      share of all waiting in the block that this rank caused (last arriver, analyze/attribution.h)
// A rank is late in a block when the median of D is beyond its noise, D is positive in most steps, and it causes most
// of the waiting. The noise of the median is 1.2533 · sigma / sqrt(n) (asymptotic variance of the median, normal case),
// sigma the robust step-to-step spread of D; with three or more others also the spread among those others' medians.
//
// Pure. O(rows × ranks log ranks × categories that occur).
#pragma once

#include <optional>
#include <vector>

#include "analyze/rows.h"

namespace stepscope {

struct StragglerLimits {
  size_t min_rows = 8;
  double min_z = 4;                // median(D) over its noise
  double min_positive = 0.7;       // share of steps with D > 0
  double min_blame = 0.5;          // share of the block's waiting caused by the rank
  double min_excess_share = 0.02;  // median(D) / median wall
  double min_spreads = 3;          // median(D) over the spread among three or more others
};

// One rank against the others in one block.
struct RankExcess {
  int rank = -1;
  double excess_ms = 0;  // median of D
  double sigma_ms = 0;   // robust spread of D from step to step
  double z = 0;
  double positive = 0;
  double blame = 0;                // 0..1
  double victim_wait_ms = 0;       // per step, median over the other ranks seen of their mean wait for this rank
  LedgerMs category_ms{};          // per category: median over steps of own - median of the others
  LedgerMs own_ms{}, others_ms{};  // medians per category: this rank's, and of the others' medians
  bool late = false;
};

// All ranks that were seen in a block of rows. Empty for fewer than two ranks or too few rows.
std::vector<RankExcess> rank_excess(const Rows& block, const StragglerLimits& limits);

// Own time that ranks are compared by: everything but communication, start-up and teardown.
bool is_comparable(Category category);
float comparable_ms(const Cell& cell);
// Forward, backward and optimizer.
double compute_ms(const LedgerMs& ms);

}  // namespace stepscope
