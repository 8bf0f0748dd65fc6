// Ranks that are late block after block: analyze/straggler.h asked for every block of a selection of steps, and what
// the blocks of one rank say together. Pure. O(rows × ranks log ranks × categories that occur).
#pragma once

#include <map>
#include <vector>

#include "analyze/straggler.h"
#include "analyze/whatif.h"

namespace stepscope {

struct LateBlock {
  Rows rows;
  RankExcess excess;
};

struct BlockLimits {
  size_t rows = 32;           // of a block; the last one takes the remainder, so that none is too short to judge
  double least_share = 0.5;   // of all blocks: so many are a fault also when none has a late neighbour
  StragglerLimits straggler;  // within a block
};

// Late blocks per rank, in order. A rank that is late in one block only was disturbed by chance (another process on its
// core) and is left out; two in a row, or `least_share` of all blocks, are a fault.
std::map<int, std::vector<LateBlock>> late_blocks(const Rows& rows, const BlockLimits& limits);

// Of the late blocks of one rank, at least one.
Rows rows_of(const std::vector<LateBlock>& blocks);
// Means of the blocks' medians, weighted by steps; z is the largest.
RankExcess overall(const std::vector<LateBlock>& blocks);
// Takes the rank down to the median of the others in these blocks of `rows`: the median excess of each category that is
// beyond noise. What the other ranks' steps vary by is left in, so that noise is not "saved". Keeps a reference to
// both.
Reduction down_to_the_others(const Rows& rows, const std::vector<LateBlock>& blocks, int rank);
// The same with the rank's own time of each step made the others', in the same categories: what it varies by goes, too,
// and a fault that strikes some steps harder goes from those. Most that can be hoped for.
Reduction as_the_others(const Rows& rows, const std::vector<LateBlock>& blocks, int rank);
// The first collective of backward that the rank issues later than the median of the others by more than `least_ms`
// (median over the steps); -1 = none, or there is one collective only: it would name no region.
int first_late_bucket(const LateBlock& block, int rank, double least_ms);
// How many times the work of the others the rank gets in these blocks: the medians over steps of its batch's size and
// of the median of the others' (analyze/batch_size.h, the best that is known of every rank); NaN where none is.
double work_factor(const std::vector<LateBlock>& blocks, int rank);
// The same of any figure of a cell.
double factor_of(const std::vector<LateBlock>& blocks, int rank, double Cell::* figure);
// How much of what `phase` takes longer on this rank's device is time in which its host still launches it: a device
// that is slow, or gets more work, has its launches behind it. 0 without a device to compare.
double launching_share(const std::vector<LateBlock>& blocks, int rank, Category phase);

}  // namespace stepscope
