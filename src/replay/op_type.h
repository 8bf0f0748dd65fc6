// The kinds of operation that a training trace holds, and what the replay needs to know of each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace stepscope::replay {

enum class OpType : uint8_t {
  kForwardCompute,
  kBackwardCompute,
  kForwardSend,
  kForwardRecv,
  kBackwardSend,
  kBackwardRecv,
  kParamsAllGather,
  kGradsReduceScatter,
  kSeparateGradsAllReduce,
  kGc,
  kLayernormAllReduce,
  kEmbeddingAllReduce,
  kClip,
  kOptimizer,
};
inline constexpr size_t kOpTypes = 14;

std::string_view name(OpType type);  // as in the trace: "forward-compute"
std::optional<OpType> op_type_of(std::string_view name);

bool is_compute(OpType type);   // forward or backward
bool is_p2p(OpType type);       // the four sends and receives
bool is_backward(OpType type);  // computes and point-to-point of the backward pass
bool is_recv(OpType type);
// Work on a link: its ideal is the median of the type, that of all others the mean.
bool is_communication(OpType type);

// Send and receive of one direction share a row in figures by type: "forward-pp-comm"; others stand for themselves.
std::string_view figure_name(OpType type);

}  // namespace stepscope::replay
