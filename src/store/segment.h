// A segment: consecutive rows of one attempt as integer columns, the unit in which steps are written, thinned and read.
//
// Level 0 holds every step; a segment of level L holds every 2^L-th, with `peak` = by how much the slowest of the steps
// a row stands for was slower, and exact sums over all steps it once held. Plain values, no file. Memory: 8 bytes per
// cell and metric that is not zero throughout.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "store/column_codec.h"
#include "store/metric.h"

namespace stepscope::store {

inline constexpr uint32_t kMaxRanks = 1u << 17, kMaxRows = 4096, kMaxLevel = 30;
inline constexpr size_t kMaxCells = 1u << 18;   // rows × ranks of one segment
inline constexpr uint32_t kBlockCells = 16384;  // of one block: a rank range of one metric

struct FlatRow {
  uint64_t step = 0;
  int64_t end_ns = 0;           // of the first rank that was seen
  std::vector<int32_t> ranks;   // that were seen, ascending
  std::vector<FlatCell> cells;  // of these
};
FlatRow to_flat(const StepRow& row);

struct SegmentHead {
  int64_t id = 0;
  int32_t attempt = 0;
  uint32_t level = 0;
  uint64_t step0 = 0, step1 = 0;  // step1: the last step it stands for
  uint32_t rows = 0, ranks = 0, quantum_ns = 1;
  uint64_t steps = 0;  // rows that were closed in it, thinned ones included
  uint64_t bytes = 0;  // of its blocks
  uint32_t seal = 0;
};

// Why `head` cannot be right, or nullptr. For heads that come from a file.
const char* fault_of(const SegmentHead& head);

using MetricColumns = std::array<std::vector<int64_t>, kMetricCount>;

struct Segment {
  SegmentHead head;
  std::vector<int64_t> step, end_us;  // by row
  std::vector<int64_t> ranks;         // of the columns, ascending; empty = 0, 1, 2, …
  MetricColumns cells;                // [column * rows + row]; empty = all zero
  MetricColumns sums;                 // by column, over all its steps; of summed metrics, levels above 0 only

  int32_t rank_of(uint32_t column) const { return static_cast<int32_t>(ranks.empty() ? column : ranks[column]); }
  MetricValues values(uint32_t column, uint32_t row) const;
};

// `ranks`: of the columns, ascending, all of the rows' among them.
Segment make_segment(int32_t attempt, std::span<const FlatRow> rows, std::span<const int32_t> ranks);

// Consecutive segments of one attempt, level and set of ranks become one of the next level.
Segment thin(std::span<const Segment> parts);

struct EncodedBlock {
  bool sum = false;
  uint8_t metric = 0;             // id in the file
  uint32_t rank0 = 0, ranks = 0;  // which of the segment's columns; 0 ranks: of the rows, or the segment's ranks
  std::string bytes;              // sealed
};

std::vector<EncodedBlock> encode(const Segment& segment, ColumnCodec& codec, ColumnCodec::Effort effort);
// Puts one block of a file where it belongs in a segment whose head was checked. A metric that is not known is skipped.
Status apply_block(Segment& segment, const EncodedBlock& block, ColumnCodec& codec);

// One row as the engine knows it. `caused`: for each rank the one it waited for most. A rank that was absent has no
// cell.
StepRow to_row(const Segment& segment, uint32_t row);

// Check word over a segment's numbers and all its blocks, in their order: what is read is what was written, or an
// Error.
uint32_t seal_of(const SegmentHead& head, std::span<const EncodedBlock> blocks);

// A sealed blob ends with 4 bytes of XXH32 of what precedes them.
std::string seal(std::string bytes);
Result<std::string_view> unseal(std::string_view bytes);

}  // namespace stepscope::store
