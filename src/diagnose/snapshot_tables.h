// The tables of a snapshot: ledger, percentiles, phases, ranks, collectives, sections, recent steps. Pure.
#pragma once

#include <vector>

#include "analyze/epochs.h"
#include "analyze/run_sums.h"
#include "diagnose/rule_input.h"
#include "diagnose/snapshot.h"

namespace stepscope {

// What the user told about arithmetic; 0 = not told.
struct FlopsGiven {
  double per_step = 0;  // of one rank
  double peak = 0;      // FLOP/s of one device
};

// Fills all of `s` that follows from steps and lives; findings must be there already (sections name their worst).
void fill_tables(Snapshot& s, const RuleInput& whole, const RunSums& sums, const std::vector<Section>& external,
                 const FlopsGiven& flops = {});

// The epochs, where they say something.
void fill_epochs(Snapshot& s, const Epochs& epochs);

}  // namespace stepscope
