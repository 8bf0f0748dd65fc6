// How much the cores of one host are asked for while a run is on it, as sampled from outside. Plain values; the agent
// fills them through diagnose/host_view.h.
#pragma once

#include <optional>

namespace stepscope {

struct HostLoad {
  double cores = 0;         // that the ranks may use, counted as the kernel does; 0 = not known
  double rank_cores = 1;    // that one rank asks for while it computes, at least its own thread
  double worker_cores = 0;  // that loader workers of the ranks use
  double others_cores = 0;  // used by processes that belong to no rank
  double run_delay = 0;     // share of time that the ranks' main threads were ready to run and had no core

  // By how much a rank's work is slowed down for each other rank that computes at once, at most: as if the cores came
  // in pairs that share everything, which is what two hardware threads of one core are at worst. 0 where half of the
  // cores is enough for all `ranks` and everybody else. Nothing is known: 1, as if all ranks shared one core.
  double most_slowdown_per_peer(int ranks) const;
  // By how much of its own time, at most, processes that belong to no rank may slow one rank down: as if all they use
  // was taken from the cores it computes on, and as if cores came in pairs that share everything. 0 where half of the
  // cores is enough for all `ranks` and everybody else.
  double most_slowdown_by_others(int ranks) const;
  // Processes that belong to no rank use a noticeable part of the cores.
  bool others_are_noticed() const;
  // They take so much that steps depend on them.
  bool has_strangers() const;
};

}  // namespace stepscope
