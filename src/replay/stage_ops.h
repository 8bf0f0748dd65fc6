// The operations of one pipeline stage, sorted out for the rules of the graph: computes in start order, everything else
// by sequence number; sends and receives with the compute that each belongs to.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "replay/op_graph.h"

namespace stepscope::replay {

struct P2p {
  OpIndex op = 0;
  std::optional<size_t> compute;  // place in the computes of its kind; none: logged but never launched
};

struct StageOps {
  std::vector<OpIndex> computes;                       // both kinds, in start order
  std::array<std::vector<OpIndex>, kOpTypes> by_type;  // by sequence number
  std::array<std::vector<OpIndex>, 2> kind;            // forward-, backward-computes in start order
  std::array<std::vector<P2p>, kOpTypes> p2p;          // the four streams

  const std::vector<OpIndex>& of(OpType type) const { return by_type[static_cast<size_t>(type)]; }
  const std::vector<P2p>& stream(OpType type) const { return p2p[static_cast<size_t>(type)]; }
  const std::vector<OpIndex>& computes_of(OpType p2p_type) const { return kind[is_backward(p2p_type)]; }
};

// One per stage. Failure: a stage whose sends or receives do not fit its computes, named with `where`.
Result<std::vector<StageOps>> sort_out_stages(const OpTrace& trace, const std::string& where);

// "In start order": by start in the prototype lane, then sequence number, then type.
bool starts_before(const OpTrace& trace, OpIndex a, OpIndex b);

}  // namespace stepscope::replay
