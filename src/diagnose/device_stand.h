// Whose device stands before the others', in a job that stands still. What a device has reached, it reached after all
// that was issued before, collectives included: a collective that one rank's device has left, all ranks had come to.
// So the device that stands first, alone, is not kept by the others: its own work does not finish. Pure; O(ranks).
#pragma once

#include <string>
#include <vector>

#include "diagnose/standing.h"

namespace stepscope {

// Ranks whose devices stand at the earliest boundary, before something that was issued to them, while those of others
// have come further. Empty where no device is behind, or where some rank does not tell where its device is.
std::vector<int> devices_behind(const JobStanding& job);

// "the forward of step 22", "the end of the backward of step 22": the first boundary that its device has not reached.
std::string device_words(const RankStanding& rank);

}  // namespace stepscope
