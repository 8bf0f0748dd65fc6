// Batches that a thread or a process of the program's own hands over in a queue: no record tells of them, and waiting
// for one is time without a name. Where the stacks say that this time is mostly spent in a queue's get, and no loader
// of torch feeds the rank's training, the queue is its input: STRAGGLER becomes INPUT_STRAGGLER, WAIT_HEAVY
// INPUT_BOUND. The ledger keeps the time where it is. Pure.
#pragma once

#include <map>

#include "align/rank_step.h"
#include "diagnose/code_lines.h"

namespace stepscope {

void name_input_queue(Finding& finding, const CodeSamples& samples, const std::map<int, RankLife>& lives);

}  // namespace stepscope
