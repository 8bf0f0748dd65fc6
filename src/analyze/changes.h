// What mending a fault may mean, made of a reduction that takes all of its cost away. Pure.
#pragma once

#include "analyze/whatif.h"

namespace stepscope {

// Work that somebody has to do: what `cut` takes from a rank's forward, backward and optimizer goes to all ranks of the
// row in equal parts, so that their work together stays; what of it was no work on a core (asleep, waiting for a lock)
// goes, and so does all of other categories. Keeps a reference to the rows; O(1) per cell, asked row by row.
Reduction shared_out(const Rows& rows, Reduction cut);
// Of what is cut from the cell, the share that was spent on a core; what is not known was. On a device all is work.
float worked_share(const Cell& cell, const LedgerMs& cut);
// What cannot be left out, only be done more rarely: twice as rarely at least.
Change half_as_often(const Reduction& cut);

}  // namespace stepscope
