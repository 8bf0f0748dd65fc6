// What the rules about device memory share: the figures of a rank, the room on its device, beginnings of findings.
// Internal to the rules_memory_*.cc files and the tables of the snapshot.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "diagnose/host_view.h"
#include "diagnose/judged.h"

namespace stepscope::memory {

using host::fact;

struct RankMemory {
  int rank = -1;
  double allocated_bytes = 0;        // newest reading, near the top of the step where it is read there
  double reserved_bytes = 0;         // newest
  double peak_bytes = 0;             // the most ever allocated
  std::optional<double> held_bytes;  // newest of what outlives a step
  std::optional<double> split_bytes,
      split_of_bytes;          // near the top: in split blocks, and reserved; medians, newest half
  double capacity_bytes = 0;   // 0 = not known
  double own_extra_bytes = 0;  // of its process beyond what torch reserved: context, libraries
  double others_bytes = 0, other_ranks_bytes = 0;
  std::vector<DeviceTenant> others;  // largest first

  // What is needed at the peak, everybody counted. 0 where the capacity is not known.
  double demand_share() const;
  double share(double bytes) const { return capacity_bytes > 0 ? bytes / capacity_bytes : 0; }
};

// Of the ranks with a reading in the selection, by rank.
std::vector<RankMemory> measured(const Judged& j);

// Of section step_memory, over the steps of the selection; no rank yet.
Finding begin(const Judged& j, FindingKind kind, Severity severity);

// "Rank 1", "Ranks 0, 2": for the begin of a title.
std::string who(const std::vector<int>& ranks);

// The rules, one file each (rules_memory_*.cc).
void judge_pressure(const Judged&, const std::vector<RankMemory>&, std::vector<Finding>&);
void judge_oom(const Judged&, const std::vector<RankMemory>&, std::vector<Finding>&);
void judge_imbalance(const Judged&, const std::vector<RankMemory>&, std::vector<Finding>&);
void judge_creep(const Judged&, const std::vector<RankMemory>&, std::vector<Finding>&);
void judge_lengths(const Judged&, const std::vector<RankMemory>&, std::vector<Finding>&);
void judge_fragments(const Judged&, const std::vector<RankMemory>&, std::vector<Finding>&);
void judge_overhang(const Judged&, const std::vector<RankMemory>&, std::vector<Finding>&);

}  // namespace stepscope::memory
