// A model on the host's cores that consists of very many small operators: what handing each of them out takes is the
// time, not what it computes. Evidence, and what each part of it rules out:
//
//   operators   nodes of the graph that a backward walks through (fact "graph", counted once): with them the time on a
//               core per operator is known
//   yardstick   what operators of one element take in the same process (the same fact): an operator that takes hardly
//               longer cannot compute much; heavy operators, few or many, make it longer
//   both        forward and backward per operator: Python work in the forward alone is not told of operators
//   cores       the thread is on a core nearly all the while: no wait
//   switches    neither anomaly detection nor a profiler, which burden each operator
//   who         torch's recurrent modules hand out all their operators in one call: that is the model as it was meant,
//               and no loop of the program could be fused there. Where there are such modules (the same fact), what the
//               program's own lines hand out is told by answers to "where are you?"
//
// Counted too low (fused, compiled, checkpointed, very large graphs) it is silent. Pure.
#pragma once

#include <optional>

#include "diagnose/rule_input.h"

namespace stepscope {

struct SmallOperators {
  double per_step = 0;                                 // operators, at least
  double forward_us = 0, backward_us = 0;              // on a core, per operator
  double least_forward_us = 0, least_backward_us = 0;  // of an operator of one element
  double cpu_share = 0;                                // of the time outside of stalls
  bool who_known = true;                               // whether the program's lines or a recurrent module
  double in_recurrent = 0;                             // of the operators, at most; 0 where it is not known
  double share = 0;                                    // of the job's time: handing out by the program
};

// Of the rank that is in the middle; nothing where a rank does not show all of it, or on a device.
std::optional<SmallOperators> small_operators(const RuleInput& in);
// Of a cell's forward and backward.
double handing_out_ms(const Cell& cell, const SmallOperators& found);

}  // namespace stepscope
