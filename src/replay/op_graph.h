// What waits for what in one step: one graph over operation names that holds for every lane. An edge a → b: b cannot
// start before a has ended. A node is a group of operations that start together when the last of them is ready, or one
// operation by itself. The rules (R1 to R9, G1 to G4) are those of docs/whatif.md.
//
// Pure. Built once per trace, O(names log names).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "replay/op_trace.h"

namespace stepscope::replay {

using OpIndex = uint32_t;  // into OpTrace::names

enum class SyncPoint : uint8_t {
  kNone,  // one operation, waits for nobody
  kLane,  // members of one replica wait for each other
  kStep,  // members of all replicas of the step do
};

struct OpNode {
  std::vector<OpIndex> members;
  SyncPoint sync_point = SyncPoint::kNone;
};

struct OpGraph {
  std::vector<std::vector<OpIndex>> before;  // per operation: what must have ended
  std::vector<OpNode> nodes;                 // in an order in which each follows all it waits for
  size_t edges = 0;
};

// Failure: one line naming `where` and the operation whose partner is missing, or that waits for itself.
Result<OpGraph> make_op_graph(const OpTrace& trace, const std::string& where);

}  // namespace stepscope::replay
