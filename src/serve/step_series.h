// Steps as the browser draws them: time per step of the job in bins, ranks × steps as one byte per cell, one step over
// all ranks. Read from the run file column by column; the newest steps, which the file does not have yet, come from the
// snapshot. Cost: about 0.2 us per rank and step in the range asked for, whatever is drawn of it; memory: one segment
// and the answer (at most kMaxHeatCells). Failure: the Error of the file; damaged segments are left out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "serve/routes.h"
#include "serve/run_state.h"
#include "store/run_record.h"

namespace stepscope {

inline constexpr size_t kMaxHeatCells = 8u << 20;

struct StepRange {
  int64_t first = 0, last = -1;  // the run has, last < first: none
  int64_t from = 0, to = -1;     // answered
  int64_t per_bin = 1;           // steps
  size_t bins() const { return to < from ? 0 : static_cast<size_t>((to - from) / per_bin + 1); }
};
// What is asked for, cut to what there is, in at most `bins` bins.
StepRange range_of(const Call& call, int64_t first, int64_t last, uint32_t bins);

struct StepBins {
  StepRange range;
  std::vector<float> longest_ms, shortest_ms;  // of each bin's steps, NaN = none was kept
  std::vector<uint32_t> tags;                  // of any of them (StepTag)
};
Result<StepBins> step_bins(const RunState& run, const Call& call);

// Level of a cell: 0 = not seen; else 1 + 254 * position on the scale.
struct HeatScale {
  bool ratio = true;            // log2 from `low` to `high`, else linear
  double low = 0.25, high = 8;  // what the ends mean
};
struct Heat {
  StepRange range;
  HeatScale scale;
  std::vector<int> ranks;
  std::vector<uint8_t> levels;      // [rank * bins + bin]: the largest of a bin's steps
  std::vector<float> reference_ms;  // own: lower median of the ranks, mean over a bin's steps; else empty
};
// own: own time over the lower median of the ranks in that step. wait, input: share of the step. memory: of the largest
// capacity, or where it is not known of the largest peak in view.
Result<Heat> heat_of(const RunState& run, const Call& call);

// nullopt: the file has no such step (thinned out, or not written yet).
Result<std::optional<StoredRow>> row_of(const RunState& run, int64_t step);

}  // namespace stepscope
