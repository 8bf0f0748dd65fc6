#include "replay/op_type.h"

#include <array>

namespace stepscope::replay {
namespace {

constexpr std::array<std::string_view, kOpTypes> kNames = {"forward-compute",
                                                           "backward-compute",
                                                           "forward-send",
                                                           "forward-recv",
                                                           "backward-send",
                                                           "backward-recv",
                                                           "params-all-gather",
                                                           "grads-reduce-scatter",
                                                           "separate-grads-all-reduce",
                                                           "gc",
                                                           "layernorm-grads-all-reduce",
                                                           "embedding-grads-all-reduce",
                                                           "optimizer-clip-main-grad",
                                                           "optimizer"};

}  // namespace

std::string_view name(OpType type) { return kNames[static_cast<size_t>(type)]; }

std::optional<OpType> op_type_of(std::string_view name) {
  for (size_t i = 0; i < kOpTypes; ++i) {
    if (kNames[i] == name) return static_cast<OpType>(i);
  }
  return std::nullopt;
}

bool is_compute(OpType type) { return type == OpType::kForwardCompute || type == OpType::kBackwardCompute; }

bool is_p2p(OpType type) { return type >= OpType::kForwardSend && type <= OpType::kBackwardRecv; }

bool is_backward(OpType type) {
  return type == OpType::kBackwardCompute || type == OpType::kBackwardSend || type == OpType::kBackwardRecv;
}

bool is_recv(OpType type) { return type == OpType::kForwardRecv || type == OpType::kBackwardRecv; }

bool is_communication(OpType type) { return !is_compute(type) && type != OpType::kGc && type != OpType::kOptimizer; }

std::string_view figure_name(OpType type) {
  if (!is_p2p(type)) return name(type);
  return is_backward(type) ? "backward-pp-comm" : "forward-pp-comm";
}

}  // namespace stepscope::replay
