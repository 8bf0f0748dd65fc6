// A model on the host's cores that consists of very many small operators: what handing each of them out takes is the
// time, not what it computes. Evidence, and what each part of it rules out:
//
//   operators   nodes of the graph that a backward walks through (fact "graph", counted once): with them the own time
//               per operator is known. Where it is no longer than handing one out takes, computing cannot be what it
//               is; heavy operators, few or many, make it longer
//   both        forward and backward per operator: Python work in the forward alone is not told of operators
//   cores       the thread is on a core all the while: no wait, no neighbour
//   switches    neither anomaly detection nor a profiler, which burden each operator
//
// Counted too low (fused, compiled, checkpointed, very large graphs) it is silent. Pure.
#pragma once

#include <optional>

#include "diagnose/rule_input.h"

namespace stepscope {

struct SmallOperators {
  double per_step = 0;                     // operators, at least
  double forward_us = 0, backward_us = 0;  // own time per operator
  double cpu_share = 0;
  double share = 0;  // of the job's time that is handing out, at least
};

// Of the rank that is in the middle; nothing where a rank does not show all of it, or on a device.
std::optional<SmallOperators> small_operators(const RuleInput& in);
// Of a cell's time in a phase that has so much per operator.
double handing_out_ms(const RuleInput& in, const Cell& cell, const SmallOperators& found);

}  // namespace stepscope
