// The table `steps`: one row per step and rank that was seen in it, in the order of attempt, step and rank, with every
// metric that the run file keeps (store/metric.h): a new row of align/step_fields.def is a new column here.
//
// Cost: about 0.6 us per row. Memory: one segment of the file (at most 2^18 cells) and one batch.
#pragma once

#include <memory>

#include "store/run_reader.h"
#include "tables/batch_source.h"

namespace stepscope::tables {

std::vector<Field> step_fields();

// `start_ns`: CLOCK_MONOTONIC at the start of the run.
std::unique_ptr<BatchSource> step_source(std::shared_ptr<RunReader> reader, int64_t start_ns);

}  // namespace stepscope::tables
