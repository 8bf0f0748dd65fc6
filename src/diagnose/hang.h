// HANG: who keeps a job from going on, why, and where in the program. Pure: one look at the job in, a finding out.
//
//   rank ──waits for──▶ members of a group that have not issued the operation ──▶ … ──▶ one that waits for nobody
//
// Who waits is a victim; who is waited for and waits for nobody is a culprit. Where all have issued the same, nobody is
// (transport), but for the one whose device stands before the others' (device_stand.h); where they have issued
// different things at one place, both sides are.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "diagnose/finding.h"
#include "diagnose/standing.h"

namespace stepscope {

// Nothing while everybody is silent for no longer than it has patience, or the ranks waited for are not silent.
std::optional<Finding> judge_hang(const JobStanding& job);

// Ranks fell over what they had called: of the operations that those who fell called last, one is another one than its
// peers called at that place, though they had agreed before. A RANK_LOST with both sides; nothing where they agree.
// Some backends end with an error there, by a signal even, where others wait.
std::optional<Finding> judge_fallen(const JobStanding& job);

// The ranks that fell are told by it: it takes the place of the loss that only says how the first of them ended.
void tell_fallen(const Finding& fallen, std::vector<Finding>& findings);

// Puts it beside the other findings: that a step does not end is said by it, and who ended while the job stood is no
// loss of its own, but for the ranks that it hangs on.
void add_hang(const Finding& hang, std::vector<Finding>& findings);

}  // namespace stepscope
