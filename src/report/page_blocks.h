// Private to the .cc files of this room: the blocks of a page. A block without elements has nothing to show and is left
// out.
#pragma once

#include "report/page.h"

namespace stepscope {

Block ledger_block(const Snapshot& snapshot, const PageSize& size);       // page_charts.cc
Block steps_block(const Snapshot& snapshot, const PageSize& size);        // page_charts.cc
Block step_time_block(const Snapshot& snapshot);                          // page_tables.cc
Block ranks_block(const Snapshot& snapshot, const PageSize& size);        // page_tables.cc
Block memory_block(const Snapshot& snapshot);                             // page_tables.cc
Block forecast_block(const Snapshot& snapshot);                           // page_forecast.cc
Block collectives_block(const Snapshot& snapshot, const PageSize& size);  // page_tables.cc
Block epochs_block(const Snapshot& snapshot, const PageSize& size);       // page_epochs.cc

}  // namespace stepscope
