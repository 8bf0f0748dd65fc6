#include "replay/op_graph.h"

#include <algorithm>
#include <map>
#include <optional>

#include "base/text_format.h"
#include "replay/stage_ops.h"

namespace stepscope::replay {
namespace {

constexpr OpIndex kNoNode = UINT32_MAX;

class GraphMaker {
 public:
  GraphMaker(const OpTrace& trace, const std::vector<StageOps>& stages, const std::string& where)
      : trace_(trace), stages_(stages), where_(where), node_of_(trace.names.size(), kNoNode) {
    graph_.before.resize(trace.names.size());
    overlap_ = std::ranges::any_of(
        stages, [](const StageOps& ops) { return !ops.of(OpType::kSeparateGradsAllReduce).empty(); });
    for (const OpName& name : trace.names) chunks_ = std::max(chunks_, name.global_chunk + 1);
  }

  Result<OpGraph> make() {
    for (const StageOps& ops : stages_) {
      streams(ops);
      transfers(ops);
      if (replicated()) data_parallel(ops);
      overlap_ ? tail_with_overlap(ops) : tail(ops);
    }
    if (Status status = pair_transfers(); !status) return std::unexpected(status.error());
    meet_across_stages();
    for (OpIndex op = 0; op < trace_.names.size(); ++op) {
      if (node_of_[op] != kNoNode) continue;
      add_node({op}, replicated() && meets_replicas(trace_.names[op].type) ? SyncPoint::kStep : SyncPoint::kNone);
    }
    return sorted();
  }

 private:
  bool replicated() const { return trace_.dp_size > 1; }

  static bool meets_replicas(OpType type) {
    return type == OpType::kParamsAllGather || type == OpType::kGradsReduceScatter ||
           type == OpType::kSeparateGradsAllReduce;
  }

  void edge(OpIndex before, OpIndex after) { graph_.before[after].push_back(before); }

  void chain(const std::vector<OpIndex>& ops) {
    for (size_t i = 1; i < ops.size(); ++i) edge(ops[i - 1], ops[i]);
  }

  // R1, R2
  void streams(const StageOps& ops) {
    chain(ops.computes);
    for (const OpType type : {OpType::kForwardSend, OpType::kForwardRecv, OpType::kBackwardSend, OpType::kBackwardRecv})
      chain(ops.of(type));
  }

  // R3 to R5
  void transfers(const StageOps& ops) {
    for (const OpType type :
         {OpType::kForwardSend, OpType::kForwardRecv, OpType::kBackwardSend, OpType::kBackwardRecv}) {
      const std::vector<OpIndex>& computes = ops.computes_of(type);
      for (const P2p& p2p : ops.stream(type)) {
        if (!p2p.compute) continue;
        if (!is_recv(type)) {
          edge(computes[*p2p.compute], p2p.op);
          continue;
        }
        edge(p2p.op, computes[*p2p.compute]);
        if (*p2p.compute > 0) edge(computes[*p2p.compute - 1], p2p.op);  // it is posted then
      }
    }
    const auto is_backward_compute = [&](OpIndex op) { return trace_.names[op].type == OpType::kBackwardCompute; };
    const auto first = std::ranges::find_if(ops.computes, is_backward_compute);
    if (first == ops.computes.end() || first - ops.computes.begin() < 2) return;
    for (const OpType type : {OpType::kBackwardRecv, OpType::kBackwardSend}) {
      if (!ops.of(type).empty()) edge(*(first - 2), ops.of(type).front());
    }
  }

  // R6, R7
  void data_parallel(const StageOps& ops) {
    std::vector<OpIndex> collectives = ops.of(OpType::kParamsAllGather);
    const std::vector<OpIndex>& scatters = ops.of(OpType::kGradsReduceScatter);
    collectives.insert(collectives.end(), scatters.begin(), scatters.end());
    std::ranges::sort(collectives, [&](OpIndex a, OpIndex b) { return starts_before(trace_, a, b); });
    chain(collectives);
    std::map<int, OpIndex> gather_of_chunk;  // the last of each
    for (const OpIndex op : ops.of(OpType::kParamsAllGather)) gather_of_chunk[trace_.names[op].model_chunk] = op;
    for (const OpIndex compute : ops.computes_of(OpType::kForwardCompute)) {
      const auto gather = gather_of_chunk.find(trace_.names[compute].model_chunk);
      if (gather == gather_of_chunk.end()) continue;
      edge(gather->second, compute);
      gather_of_chunk.erase(gather);
    }
  }

  std::optional<OpIndex> last_compute(const StageOps& ops) const {
    const auto end_s = [&](OpIndex op) { return trace_.start_s.row(op)[0] + trace_.duration_s.row(op)[0]; };
    std::optional<OpIndex> last;
    for (const OpIndex op : ops.computes) {
      if (!last || end_s(op) >= end_s(*last)) last = op;
    }
    return last;
  }

  // `after` all of `front`, which it replaces.
  void advance(std::vector<OpIndex>& front, OpIndex after) {
    for (const OpIndex op : front) edge(op, after);
    front = {after};
  }
  void advance(std::vector<OpIndex>& front, const std::vector<OpIndex>& chain) {
    for (const OpIndex op : chain) advance(front, op);
  }

  // R8
  void tail(const StageOps& ops) {
    std::vector<OpIndex> front;
    if (const auto last = last_compute(ops)) front = {*last};
    for (const OpType type : {OpType::kGc, OpType::kLayernormAllReduce, OpType::kEmbeddingAllReduce,
                              OpType::kGradsReduceScatter, OpType::kClip, OpType::kOptimizer}) {
      advance(front, ops.of(type));
    }
  }

  // R9
  void tail_with_overlap(const StageOps& ops) {
    std::map<int, OpIndex> last_backward;
    for (const OpIndex op : ops.computes_of(OpType::kBackwardCompute)) last_backward[trace_.names[op].model_chunk] = op;
    for (const OpIndex scatter : ops.of(OpType::kGradsReduceScatter)) {
      const auto backward = last_backward.find(trace_.names[scatter].model_chunk);
      if (backward == last_backward.end()) continue;
      edge(backward->second, scatter);
      last_backward.erase(backward);
    }
    std::vector<OpIndex> front;
    if (const auto last = last_compute(ops)) front = {*last};
    advance(front, ops.of(OpType::kGc));
    if (!ops.of(OpType::kGradsReduceScatter).empty()) front.push_back(ops.of(OpType::kGradsReduceScatter).back());
    for (const OpType type : {OpType::kLayernormAllReduce, OpType::kEmbeddingAllReduce, OpType::kSeparateGradsAllReduce,
                              OpType::kClip, OpType::kOptimizer}) {
      advance(front, ops.of(type));
    }
  }

  void add_node(std::vector<OpIndex> members, SyncPoint sync_point) {
    for (const OpIndex op : members) node_of_[op] = static_cast<OpIndex>(nodes_.size());
    nodes_.push_back({std::move(members), sync_point});
  }

  // The transfers of a stream that have a peer: launched, and not at an end of the model.
  std::vector<OpIndex> with_peer(int stage, OpType type) const {
    const StageOps& ops = stages_[static_cast<size_t>(stage)];
    const bool to_next = type == OpType::kForwardSend || type == OpType::kBackwardRecv;
    std::vector<OpIndex> out;
    for (const P2p& p2p : ops.stream(type)) {
      if (!p2p.compute) continue;
      const int chunk = trace_.names[ops.computes_of(type)[*p2p.compute]].global_chunk;
      if (to_next ? chunk + 1 < chunks_ : chunk > 0) out.push_back(p2p.op);
    }
    return out;
  }

  // G1: by order on the stream, never by time.
  Status pair_transfers() {
    for (int stage = 0; stage < trace_.stages; ++stage) {
      const std::pair<OpType, OpType> kinds[] = {{OpType::kForwardSend, OpType::kForwardRecv},
                                                 {OpType::kBackwardSend, OpType::kBackwardRecv}};
      for (const auto& [send, recv] : kinds) {
        const int step = send == OpType::kForwardSend ? 1 : trace_.stages - 1;
        const int peer = (stage + step) % trace_.stages;
        const std::vector<OpIndex> sends = with_peer(stage, send), recvs = with_peer(peer, recv);
        const size_t pairs = std::min(sends.size(), recvs.size());
        if (sends.size() != recvs.size()) {
          const bool no_recv = sends.size() > pairs;
          return fail(formatted("{}: {} has no {} on stage {}", where_,
                                text(trace_.names[no_recv ? sends[pairs] : recvs[pairs]]), name(no_recv ? recv : send),
                                no_recv ? peer : stage));
        }
        for (size_t i = 0; i < pairs; ++i) add_node({sends[i], recvs[i]}, SyncPoint::kLane);
      }
    }
    return {};
  }

  // G3, G4
  void meet_across_stages() {
    std::map<int, std::vector<OpIndex>> embeddings, clips;  // by sequence number
    for (const StageOps& ops : stages_) {
      const bool outer = &ops == &stages_.front() || &ops == &stages_.back();
      for (const OpIndex op : ops.of(OpType::kEmbeddingAllReduce)) {
        if (outer) embeddings[trace_.names[op].seq_id].push_back(op);
      }
      for (const OpIndex op : ops.of(OpType::kClip)) clips[trace_.names[op].seq_id].push_back(op);
    }
    for (auto& [seq, members] : embeddings) add_node(std::move(members), SyncPoint::kLane);
    for (auto& [seq, members] : clips) add_node(std::move(members), SyncPoint::kStep);
  }

  // Kahn's order; what is left over waits for itself.
  Result<OpGraph> sorted() {
    std::vector<std::vector<OpIndex>> after(nodes_.size());
    std::vector<size_t> waits_for(nodes_.size());
    for (OpIndex op = 0; op < trace_.names.size(); ++op) {
      std::vector<OpIndex>& before = graph_.before[op];
      std::ranges::sort(before);
      before.erase(std::unique(before.begin(), before.end()), before.end());
      graph_.edges += before.size();
      for (const OpIndex other : before) {
        after[node_of_[other]].push_back(node_of_[op]);
        ++waits_for[node_of_[op]];
      }
    }
    std::vector<OpIndex> ready;
    for (OpIndex node = 0; node < nodes_.size(); ++node) {
      if (waits_for[node] == 0) ready.push_back(node);
    }
    for (size_t i = 0; i < ready.size(); ++i) {
      for (const OpIndex next : after[ready[i]]) {
        if (--waits_for[next] == 0) ready.push_back(next);
      }
    }
    if (ready.size() != nodes_.size()) {
      const auto stuck = std::ranges::find_if(waits_for, [](size_t count) { return count > 0; });
      const OpNode& node = nodes_[static_cast<size_t>(stuck - waits_for.begin())];
      return fail(formatted("{}: {} would have to wait for itself; the trace's order of operations cannot be", where_,
                            text(trace_.names[node.members.front()])));
    }
    for (const OpIndex node : ready) graph_.nodes.push_back(std::move(nodes_[node]));
    return std::move(graph_);
  }

  const OpTrace& trace_;
  const std::vector<StageOps>& stages_;
  const std::string& where_;
  bool overlap_ = false;
  int chunks_ = 0;
  std::vector<OpIndex> node_of_;
  std::vector<OpNode> nodes_;
  OpGraph graph_;
};

}  // namespace

Result<OpGraph> make_op_graph(const OpTrace& trace, const std::string& where) {
  const auto stages = sort_out_stages(trace, where);
  if (!stages) return std::unexpected(stages.error());
  return GraphMaker(trace, *stages, where).make();
}

}  // namespace stepscope::replay
