// The rules that no published trace exercises (docs/whatif.md): several chunks, transfers that were never launched,
// overlap, one replica. What the others say is proven by replay_test.cc against a replay written from the rules alone.
#include "replay/op_graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "naive_job.h"

namespace stepscope::replay {
namespace {

// Rows of replica 0 in step 0, repeated for every replica; times in milliseconds.
struct Rows {
  int replicas = 2;
  std::vector<TraceRow> rows;

  Rows& op(OpType type, int stage, int seq, double start_ms, double duration_ms, int chunk = -1,
           int global_chunk = -1) {
    for (int dp = 0; dp < replicas; ++dp) {
      rows.push_back({.type = type,
                      .step = 0,
                      .dp_rank = dp,
                      .stage = stage,
                      .rank = stage * replicas + dp,
                      .seq_id = seq,
                      .model_chunk = chunk,
                      .global_chunk = global_chunk,
                      .start_s = start_ms * 1e-3,
                      .duration_s = duration_ms * 1e-3});
    }
    return *this;
  }
  Rows& forward(int stage, int seq, double at, int chunk = 0, int global = -1) {
    return op(OpType::kForwardCompute, stage, seq, at, 1, chunk, global < 0 ? stage : global);
  }
  Rows& backward(int stage, int seq, double at, int chunk = 0, int global = -1) {
    return op(OpType::kBackwardCompute, stage, seq, at, 1, chunk, global < 0 ? stage : global);
  }
};

std::string short_text(const OpName& n) {
  return std::string(name(n.type)) + std::to_string(n.seq_id) + "@" + std::to_string(n.stage);
}

struct Drawn {
  std::set<std::string> edges, groups;
  std::string error;
  bool has(const std::string& edge) const { return edges.contains(edge); }
};

Drawn draw(const Rows& rows) {
  Drawn out;
  const auto trace = make_op_trace(rows.rows, "t.csv");
  if (!trace) return out.error = trace.error().message, out;
  const auto graph = make_op_graph(*trace, "t.csv");
  if (!graph) return out.error = graph.error().message, out;
  for (OpIndex op = 0; op < trace->names.size(); ++op) {
    for (const OpIndex before : graph->before[op])
      out.edges.insert(short_text(trace->names[before]) + " > " + short_text(trace->names[op]));
  }
  for (const OpNode& node : graph->nodes) {
    if (node.sync_point == SyncPoint::kNone) continue;
    std::set<std::string> names;
    for (const OpIndex op : node.members) names.insert(short_text(trace->names[op]));
    std::string text = node.sync_point == SyncPoint::kStep ? "all:" : "";
    for (const std::string& one : names) text += (text.empty() || text.ends_with(':') ? "" : "+") + one;
    out.groups.insert(text);
  }
  return out;
}

TEST(OpGraph, WithOverlapReductionFollowsTheLastBackwardOfItsChunk) {
  Rows rows;
  rows.forward(0, 0, 1, 0, 0).forward(0, 1, 2, 1, 1).backward(0, 0, 3, 1, 1).backward(0, 1, 4, 0, 0);
  rows.op(OpType::kParamsAllGather, 0, 0, 0, 1, 0).op(OpType::kParamsAllGather, 0, 1, 0.5, 1, 1);
  rows.op(OpType::kGradsReduceScatter, 0, 0, 4, 1, 1).op(OpType::kGradsReduceScatter, 0, 1, 5, 1, 0);
  rows.op(OpType::kGc, 0, 0, 5, 0)
      .op(OpType::kLayernormAllReduce, 0, 0, 6, 1)
      .op(OpType::kEmbeddingAllReduce, 0, 0, 7, 1);
  rows.op(OpType::kSeparateGradsAllReduce, 0, 0, 8, 1)
      .op(OpType::kClip, 0, 0, 9, 1)
      .op(OpType::kOptimizer, 0, 0, 10, 1);
  const Drawn drawn = draw(rows);
  EXPECT_EQ(drawn.error, "");
  const std::set<std::string> expected = {"forward-compute0@0 > forward-compute1@0",
                                          "forward-compute1@0 > backward-compute0@0",
                                          "backward-compute0@0 > backward-compute1@0",
                                          "params-all-gather0@0 > params-all-gather1@0",
                                          "params-all-gather1@0 > grads-reduce-scatter0@0",
                                          "grads-reduce-scatter0@0 > grads-reduce-scatter1@0",
                                          "params-all-gather0@0 > forward-compute0@0",
                                          "params-all-gather1@0 > forward-compute1@0",
                                          "backward-compute0@0 > grads-reduce-scatter0@0",
                                          "backward-compute1@0 > grads-reduce-scatter1@0",
                                          "backward-compute1@0 > gc0@0",
                                          "gc0@0 > layernorm-grads-all-reduce0@0",
                                          "grads-reduce-scatter1@0 > layernorm-grads-all-reduce0@0",
                                          "layernorm-grads-all-reduce0@0 > embedding-grads-all-reduce0@0",
                                          "embedding-grads-all-reduce0@0 > separate-grads-all-reduce0@0",
                                          "separate-grads-all-reduce0@0 > optimizer-clip-main-grad0@0",
                                          "optimizer-clip-main-grad0@0 > optimizer0@0"};
  EXPECT_EQ(drawn.edges, expected);
  EXPECT_EQ(drawn.groups, (std::set<std::string>{"all:params-all-gather0@0", "all:params-all-gather1@0",
                                                 "all:grads-reduce-scatter0@0", "all:grads-reduce-scatter1@0",
                                                 "all:separate-grads-all-reduce0@0", "all:optimizer-clip-main-grad0@0",
                                                 "embedding-grads-all-reduce0@0"}));
}

TEST(OpGraph, OneReplicaHasNoDataParallelStream) {
  Rows rows{.replicas = 1};
  rows.forward(0, 0, 1)
      .backward(0, 0, 2)
      .op(OpType::kParamsAllGather, 0, 0, 0, 1, 0)
      .op(OpType::kGradsReduceScatter, 0, 0, 3, 1, 0);
  rows.op(OpType::kOptimizer, 0, 0, 4, 1);
  const Drawn drawn = draw(rows);
  EXPECT_EQ(drawn.edges, (std::set<std::string>{"forward-compute0@0 > backward-compute0@0",
                                                "backward-compute0@0 > grads-reduce-scatter0@0",
                                                "grads-reduce-scatter0@0 > optimizer0@0"}));
  EXPECT_TRUE(drawn.groups.empty());
}

// Two stages, two chunks each: chunk 0 and 2 on stage 0, 1 and 3 on stage 1. Every compute of an inner boundary has its
// transfer; stage 0 gets nothing for chunk 0, stage 1 sends nothing for chunk 3.
Rows two_chunks() {
  Rows rows;
  rows.forward(0, 0, 0, 0, 0).forward(0, 1, 10, 1, 2).backward(0, 0, 40, 1, 2).backward(0, 1, 60, 0, 0);
  rows.forward(1, 0, 5, 0, 1).forward(1, 1, 15, 1, 3).backward(1, 0, 30, 1, 3).backward(1, 1, 50, 0, 1);
  for (const int seq : {0, 1}) {
    rows.op(OpType::kForwardSend, 0, seq, 2 + 10 * seq, 1).op(OpType::kForwardRecv, 1, seq, 2 + 10 * seq, 1);
    rows.op(OpType::kBackwardSend, 1, seq, 32 + 20 * seq, 1).op(OpType::kBackwardRecv, 0, seq, 32 + 20 * seq, 1);
  }
  rows.op(OpType::kForwardSend, 1, 0, 7, 1).op(OpType::kForwardRecv, 0, 0, 7, 1);      // chunk 1 → 2, round the corner
  rows.op(OpType::kBackwardSend, 0, 0, 42, 1).op(OpType::kBackwardRecv, 1, 0, 42, 1);  // and back
  rows.op(OpType::kOptimizer, 0, 0, 70, 1).op(OpType::kOptimizer, 1, 0, 70, 1);
  return rows;
}

TEST(OpGraph, ChunksGoRoundFromTheLastStageToTheFirst) {
  const Drawn drawn = draw(two_chunks());
  ASSERT_EQ(drawn.error, "");
  for (const char* pair : {"forward-recv0@1+forward-send0@0", "forward-recv1@1+forward-send1@0",
                           "forward-recv0@0+forward-send0@1", "backward-recv0@0+backward-send0@1",
                           "backward-recv1@0+backward-send1@1", "backward-recv0@1+backward-send0@0"}) {
    EXPECT_TRUE(drawn.groups.contains(pair)) << pair;
  }
  EXPECT_TRUE(drawn.has("forward-recv0@0 > forward-compute1@0"));  // one fewer: matching begins at compute 1
  EXPECT_TRUE(drawn.has("forward-compute0@0 > forward-recv0@0"));  // posted then
  EXPECT_TRUE(drawn.has("forward-compute0@1 > forward-send0@1"));  // the last compute has none
  EXPECT_FALSE(drawn.has("forward-compute1@1 > forward-send0@1"));
}

TEST(OpGraph, TransfersThatWereNeverLaunchedWaitForNobody) {
  Rows rows = two_chunks();
  rows.op(OpType::kForwardRecv, 0, 1, 10.2, 1);  // 0.2 ms after the last forward of stage 0 began
  const Drawn drawn = draw(rows);
  ASSERT_EQ(drawn.error, "");
  EXPECT_TRUE(drawn.has("forward-recv0@0 > forward-recv1@0"));  // still one stream
  for (const std::string& edge : drawn.edges) EXPECT_FALSE(edge.starts_with("forward-recv1@0 >")) << edge;
  EXPECT_TRUE(drawn.groups.contains("forward-recv0@0+forward-send0@1"));
}

TEST(OpGraph, ASendBeforeTheFirstComputeHasEndedWasNeverLaunched) {
  Rows rows = two_chunks();
  for (TraceRow& row : rows.rows) row.seq_id += row.type == OpType::kForwardSend && row.stage == 1;
  rows.op(OpType::kForwardSend, 1, 0, 4, 1);  // ends 1 ms before the first forward of stage 1
  const Drawn drawn = draw(rows);
  ASSERT_EQ(drawn.error, "");
  EXPECT_TRUE(drawn.has("forward-compute0@1 > forward-send1@1"));
  EXPECT_FALSE(drawn.has("forward-compute0@1 > forward-send0@1"));
  EXPECT_TRUE(drawn.groups.contains("forward-recv0@0+forward-send1@1"));
}

TEST(OpGraph, ATransferAtAnEndOfTheModelKeepsItsEdgesAndMeetsNobody) {
  Rows rows = two_chunks();
  rows.op(OpType::kForwardSend, 1, 1, 17, 1);  // of chunk 3: no chunk 4
  const Drawn drawn = draw(rows);
  ASSERT_EQ(drawn.error, "");
  EXPECT_TRUE(drawn.has("forward-compute1@1 > forward-send1@1"));
  for (const std::string& group : drawn.groups) EXPECT_EQ(group.find("forward-send1@1"), std::string::npos) << group;
}

TEST(OpGraph, TransfersThatDoNotFitAreNamed) {
  examples::NaiveJob job{.stages = 3, .microbatches = 3};
  auto without = [&](OpType type, int stage, int seq) {
    Rows rows;
    rows.rows = job.rows();
    std::erase_if(rows.rows, [&](const TraceRow& r) { return r.type == type && r.stage == stage && r.seq_id == seq; });
    return draw(rows).error;
  };
  EXPECT_EQ(without(OpType::kForwardRecv, 1, 2), "t.csv: stage 1 has 2 forward-recv for 3 forward-compute");
  EXPECT_EQ(without(OpType::kForwardSend, 0, 2), "t.csv: forward-recv 2 of stage 1 has no forward-send on stage 0");
  EXPECT_EQ(without(OpType::kBackwardRecv, 0, 2), "t.csv: backward-send 2 of stage 1 has no backward-recv on stage 0");
  Rows rows;
  rows.rows = job.rows();
  for (TraceRow& row : rows.rows) row.global_chunk = -1;
  EXPECT_EQ(draw(rows).error, "t.csv: forward-compute 0 of stage 0 has no model chunk (gmc)");
}

TEST(OpGraph, AnOrderThatCannotBeIsNamed) {
  Rows rows;  // the last stage would have to send gradients of what it gets afterwards
  rows.forward(0, 0, 0).backward(0, 0, -5).forward(1, 0, 1).backward(1, 0, 2);
  rows.op(OpType::kForwardSend, 0, 0, 1, 1)
      .op(OpType::kForwardRecv, 1, 0, 1, 1)
      .op(OpType::kBackwardSend, 1, 0, 3, 1)
      .op(OpType::kBackwardRecv, 0, 0, -6, 1);
  EXPECT_NE(draw(rows).error.find("would have to wait for itself"), std::string::npos) << draw(rows).error;
}

}  // namespace
}  // namespace stepscope::replay
