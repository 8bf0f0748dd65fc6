// A rank that was seen stopped (SIGSTOP, a debugger, a frozen container) while it was inside of a collective: all its
// members then stall alike, and the clock-free rule of attribution.h takes the time for transfer. Whoever knows of the
// stop says so here.
#pragma once

#include "align/step_table.h"

namespace stepscope {

// After attribute(): what `rank` seemed to transfer in this row, where it is more than kStoppedLeastMs of one
// collective, becomes a pause of its own and waiting, caused by it, of the other members. Steps timed by a device are
// left alone: its queue goes on while the host stands still.
inline constexpr float kStoppedLeastMs = 100;
void charge_stopped(StepRow& row, int rank);

}  // namespace stepscope
