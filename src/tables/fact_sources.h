// The tables beside `steps`: what the run file holds as facts, one plain value per row (item_source.h).
#pragma once

#include <memory>

#include "store/run_reader.h"
#include "tables/batch_source.h"

namespace stepscope::tables {

using SharedReader = std::shared_ptr<RunReader>;
using Source = Result<std::unique_ptr<BatchSource>>;

// Each opens one table; `run`: what the file says of the run, for its zero of time. A null reader gives a table without
// rows, for its fields.
Source ledger_source(SharedReader reader, const StoredRun& run);
Source collectives_source(SharedReader reader, const StoredRun& run);
Source samples_source(SharedReader reader, const StoredRun& run);
Source findings_source(SharedReader reader, const StoredRun& run);
Source ranks_source(SharedReader reader, const StoredRun& run);
Source groups_source(SharedReader reader, const StoredRun& run);
Source events_source(SharedReader reader, const StoredRun& run);

}  // namespace stepscope::tables
