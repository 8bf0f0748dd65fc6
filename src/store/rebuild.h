// A run worked out again from its file: rows go back into an engine, which judges them as it did live.
//
// What the file does not keep is made up as simply as the sums allow: the stalls of a rank's step in backward are one,
// at the end of its own time, those outside another. So transfer and wait of steps with one sync point of all ranks
// (DDP) come out as they were, other groups blurred into one; the region named by bucket times is missing; thinned
// steps count as single ones, but ledgers are exact. Cost: that of the engine. Memory: that of the engine, plus one
// segment of rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/result.h"
#include "diagnose/run_context.h"
#include "store/merge.h"
#include "store/run_reader.h"

namespace stepscope {

// One rank's step of a row, as StepTable would take it; `cell` is one of its cells.
RankStep rank_step_of(const StepRow& row, const Cell& cell);

struct RebuildOptions {
  EngineOptions engine;
  uint32_t max_ranks = 8192;  // an engine keeps hundreds of rows of all ranks: a file that claims more is refused
};

// Findings, tables and RunInfo of all attempts, as live: steps are counted on, who was lost in an earlier one stays a
// finding. System and process sections are not in it. run.status stays "running" when the writer never said how it
// ended.
Result<Snapshot> rebuild_snapshot(RunReader& reader, const RebuildOptions& options = {});

// Gets what a run writer would: `attempt` before the rows of every attempt but the first, `row` every closed row.
struct MergedSink {
  std::function<void(int32_t attempt)> attempt;
  std::function<void(const StepRow&)> row;
};

// The same of the whole job, from the files of its nodes.
Result<Snapshot> rebuild_merged(RunMerge& merge, const RebuildOptions& options = {}, const MergedSink& sink = {});

}  // namespace stepscope
