#include "replay/stage_ops.h"

#include <algorithm>
#include <tuple>

#include "base/text_format.h"

namespace stepscope::replay {
namespace {

constexpr double kLateS = 50e-6;  // beyond the clock steps of float32 seconds

double start_s(const OpTrace& trace, OpIndex op) { return trace.start_s.row(op)[0]; }
double end_s(const OpTrace& trace, OpIndex op) { return start_s(trace, op) + trace.duration_s.row(op)[0]; }

// Some profilers log transfers that were never launched: a receive after the last compute of its kind has begun, a send
// before the first has ended.
bool never_launched(const OpTrace& trace, OpIndex op, const std::vector<OpIndex>& computes) {
  if (computes.empty()) return true;
  if (is_recv(trace.names[op].type)) return start_s(trace, op) - start_s(trace, computes.back()) > kLateS;
  return end_s(trace, computes.front()) - end_s(trace, op) > kLateS;
}

Status match_to_computes(const OpTrace& trace, int stage, OpType type, StageOps& ops, const std::string& where) {
  const std::vector<OpIndex>& computes = ops.computes_of(type);
  std::vector<P2p>& stream = ops.p2p[static_cast<size_t>(type)];
  std::vector<size_t> launched;
  for (const OpIndex op : ops.of(type)) {
    if (!never_launched(trace, op, computes)) launched.push_back(stream.size());
    stream.push_back({op, std::nullopt});
  }
  const bool outer = stage == 0 || stage == trace.stages - 1;
  size_t first = 0;
  if (outer && launched.empty()) return {};
  if (outer && launched.size() + 1 == computes.size()) {
    first = is_recv(type) ? 1 : 0;  // the first input comes from no peer, the last output goes to none
  } else if (launched.size() != computes.size()) {
    return fail(formatted("{}: stage {} has {} {} for {} {}", where, stage, launched.size(), name(type),
                          computes.size(),
                          name(is_backward(type) ? OpType::kBackwardCompute : OpType::kForwardCompute)));
  }
  for (size_t i = 0; i < launched.size(); ++i) stream[launched[i]].compute = i + first;
  return {};
}

}  // namespace

bool starts_before(const OpTrace& trace, OpIndex a, OpIndex b) {
  const auto order = [&](OpIndex op) {
    return std::tuple(start_s(trace, op), trace.names[op].seq_id, name(trace.names[op].type));
  };
  return order(a) < order(b);
}

Result<std::vector<StageOps>> sort_out_stages(const OpTrace& trace, const std::string& where) {
  std::vector<StageOps> stages(static_cast<size_t>(trace.stages));
  for (OpIndex op = 0; op < trace.names.size(); ++op) {
    const OpName& name = trace.names[op];
    StageOps& ops = stages[static_cast<size_t>(name.stage)];
    ops.by_type[static_cast<size_t>(name.type)].push_back(op);  // names stand by sequence number
    if (!is_compute(name.type)) continue;
    if (name.global_chunk < 0) return fail(formatted("{}: {} has no model chunk (gmc)", where, text(name)));
    ops.computes.push_back(op);
    ops.kind[is_backward(name.type)].push_back(op);
  }
  const auto in_start_order = [&](OpIndex a, OpIndex b) { return starts_before(trace, a, b); };
  for (int stage = 0; stage < trace.stages; ++stage) {
    StageOps& ops = stages[static_cast<size_t>(stage)];
    for (auto* computes : {&ops.computes, &ops.kind[0], &ops.kind[1]})
      std::sort(computes->begin(), computes->end(), in_start_order);
    for (const OpType type :
         {OpType::kForwardSend, OpType::kForwardRecv, OpType::kBackwardSend, OpType::kBackwardRecv}) {
      if (Status status = match_to_computes(trace, stage, type, ops, where); !status)
        return std::unexpected(status.error());
    }
  }
  return stages;
}

}  // namespace stepscope::replay
