// What the run file keeps of one rank in one step: the metrics, their numbers in the file, and how each becomes an
// integer. Pure; a few ns per metric.
//
//   kTime   nanoseconds in units of the segment's quantum times `scale`. The categories of a cell are rounded by their
//           running sum, so that they add up to the rounded wall time; each is within one unit of what it was.
//   kFine   a float without its `drop` lowest bits (relative error 2^-(24 - drop)), not-a-number and infinities kept;
//           0 = no value
//   kReal   a float of 24 significant bits
//   kCount  an integer as it is
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "align/step_table.h"

namespace stepscope::store {

enum class MetricKind : uint8_t { kTime, kFine, kReal, kCount };
enum class Thinning : uint8_t { kKept, kSummed };

struct MetricInfo {
  uint8_t id = 0;         // in the file; never reused
  std::string_view name;  // unit last
  std::string_view unit;
  MetricKind kind = MetricKind::kCount;
  Thinning thinning = Thinning::kKept;
  uint8_t scale = 1;      // kTime
  uint8_t drop = 0;       // kFine
  bool from_one = false;  // 0 = not known, else the value + 1

  constexpr bool summed() const { return thinning == Thinning::kSummed; }
};

// Categories come first: metric number c is category c, id 16 + c. Where the main axis is the GPU's, the host's own
// ledger stands beside it, in coarser units: metric number kHost + c, id 128 + c. Last the figures of
// align/step_fields.def, in its order.
enum Metric : uint8_t {
  kRest = kCategoryCount,  // wall time that no category holds: 0 but for damaged input
  kAbsent,                 // 1 = the rank was not seen in this step
  kOutside,                // of comm_transfer: what blocked outside of backward
  kWaitedFor,
  kPeak,
  kGpu,
  kLaunching,
  kLaunchingLast = kLaunching + kLaunchPhases.size() - 1,
  kHost,
  kHostRest = kHost + kCategoryCount,
  kFigures,
};

enum class Figure : uint8_t {
#define FIGURE(kind, figure, ...) figure,
#include "align/step_fields.def"
  kCount
};

constexpr size_t metric_of(Figure figure) { return kFigures + static_cast<size_t>(figure); }
inline constexpr size_t kMetricCount = metric_of(Figure::kCount);

inline constexpr uint8_t kStepId = 1, kEndId = 2;  // per row, not per rank: step number, end in us
inline constexpr uint8_t kRanksId = 3;             // per column: which rank it is of

// Of the bits of `tags` (StepTag), from bit 1 on; those of `host_bound` are the categories', from bit 0 on.
inline constexpr std::array<std::string_view, 9> kTagNames = {
    "compile", "checkpoint", "validation", "epoch_start", "skipped", "inferred", "provisional", "lossy", "captured"};

const MetricInfo& metric_info(size_t metric);
// kMetricCount when the file knows more than we do.
size_t metric_of_id(int64_t id);

// One rank in one step as it waits to be written: a Cell without what the file does not keep.
struct FlatCell : CellFigures {
  LedgerMs ms{}, host_ms{}, launching_ms{};
  float wall_ms = 0, host_wall_ms = 0, outside_ms = 0;
  int32_t waited_for = -1;  // the rank that caused most of its waiting, -1 = it did not wait
  bool present = false, gpu = false;
};

using MetricValues = std::array<int64_t, kMetricCount>;

FlatCell to_flat(const Cell& cell);
MetricValues quantise(const FlatCell& cell, uint32_t quantum_ns);
// Everything but segments, bucket times and single device operations. Stalls are three at most: of those
// whose members were all seen all in backward as one and all outside as one, of kSeenGroup; the others as one, of
// kUnseenGroup.
Cell restore(int rank, const MetricValues& values, uint32_t quantum_ns);
bool is_absent(const MetricValues& values);  // the rank was not seen in this step: there is nothing to restore
int32_t waited_for(const MetricValues& values);

// What a stored value says: times in ms, counts as they are; nullopt where it was not known.
std::optional<double> figure_of(size_t metric, int64_t value, uint32_t quantum_ns);

// Sums of thinned steps: what one value adds, and the figure of a sum. Times in ms, counts as they are.
double summand(size_t metric, int64_t value, uint32_t quantum_ns);

// The largest power of two that leaves `wall_ms` at least 16384 quanta; 8 ns to 131 us.
uint32_t quantum_for(double wall_ms);

// Floats as integers that keep their order. `drop` low bits are rounded away; a finite value stays finite.
int64_t float_to_ordered(double value, unsigned drop);
double ordered_to_float(int64_t value, unsigned drop);

}  // namespace stepscope::store
