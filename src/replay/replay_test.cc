#include "replay/replay.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "naive_job.h"

namespace stepscope::replay {
namespace {

using examples::NaiveJob;
using examples::NaiveOp;

// Any number in [0, 1) for an operation and a seed.
double random_of(const NaiveOp& op, uint64_t seed) {
  uint64_t x = seed;
  for (const int part : {op.step, op.dp, op.stage, static_cast<int>(op.type), op.seq})
    x = (x ^ static_cast<uint64_t>(part + 1)) * 0x9e3779b97f4a7c15ull ^ x >> 29;
  x = (x ^ x >> 32) * 0xbf58476d1ce4e5b9ull;
  return static_cast<double>(x >> 11) * 0x1p-53;
}

NaiveJob any_job() {
  NaiveJob job{.stages = *rc::gen::inRange(1, 5),
               .dp_size = *rc::gen::inRange(1, 4),
               .steps = *rc::gen::inRange(1, 4),
               .microbatches = *rc::gen::inRange(1, 6)};
  const auto seed = *rc::gen::arbitrary<uint64_t>();
  job.work_s = [seed](const NaiveOp& op) { return op.type == OpType::kGc ? 0.0 : 0.01 + random_of(op, seed); };
  return job;
}

struct Parts {
  OpTrace trace;
  OpGraph graph;
  Work work;
};

Parts parts_of(const NaiveJob& job) {
  Parts out;
  auto trace = make_op_trace(job.rows(), "t.csv");
  if (!trace) throw std::runtime_error(trace.error().message);
  out.trace = std::move(*trace);
  auto graph = make_op_graph(out.trace, "t.csv");
  if (!graph) throw std::runtime_error(graph.error().message);
  out.graph = std::move(*graph);
  out.work = split_work(out.trace, out.graph);
  return out;
}

bool near(double a, double b) { return std::abs(a - b) < 1e-9; }

NaiveOp op_of(const OpTrace& trace, OpIndex op, size_t lane) {
  const auto dp_size = static_cast<size_t>(trace.dp_size);
  return {static_cast<int>(lane / dp_size), static_cast<int>(lane % dp_size), trace.names[op].stage,
          trace.names[op].type, trace.names[op].seq_id};
}

RC_GTEST_PROP(Replay, FindsTheWorkAndRebuildsTheStepsOfAnyJob, ()) {
  const NaiveJob job = any_job();
  const Parts p = parts_of(job);
  for (OpIndex op = 0; op < p.trace.names.size(); ++op) {
    for (size_t lane = 0; lane < p.trace.lanes(); ++lane)
      RC_ASSERT(near(p.work.work_s.row(op)[lane], job.work_s(op_of(p.trace, op, lane))));
  }
  const auto naive = job.times(job.work_s, false).step_s;
  const auto steps = replay_steps_s(p.trace, p.graph, p.work.work_s), recorded = recorded_steps_s(p.trace);
  for (size_t i = 0; i < naive.size(); ++i) {
    RC_ASSERT(near(steps[i], naive[i]));
    RC_ASSERT(near(recorded[i], naive[i]));
  }
  RC_ASSERT(closure_error_s(p.trace, p.graph, p.work) < 1e-9);
}

RC_GTEST_PROP(Replay, GapsDisappearAndTheSelfTestFindsThemAgain, ()) {
  NaiveJob job = any_job();
  const auto seed = *rc::gen::arbitrary<uint64_t>();
  job.gap_s = [seed](const NaiveOp& op) { return random_of(op, seed) < 0.3 ? random_of(op, seed ^ 1) : 0; };
  const Parts p = parts_of(job);
  const auto naive = job.times(job.work_s, false).step_s;
  const auto steps = replay_steps_s(p.trace, p.graph, p.work.work_s), recorded = recorded_steps_s(p.trace);
  for (size_t i = 0; i < naive.size(); ++i) {
    RC_ASSERT(near(steps[i], naive[i]));
    RC_ASSERT(recorded[i] >= 0);
  }
  RC_ASSERT(closure_error_s(p.trace, p.graph, p.work) < 1e-9);
}

RC_GTEST_PROP(Replay, OtherWorkIsReplayedAsTheSlowWayDoes, ()) {
  const NaiveJob job = any_job();
  Parts p = parts_of(job);
  const auto seed = *rc::gen::arbitrary<uint64_t>();
  for (OpIndex op = 0; op < p.trace.names.size(); ++op) {
    for (size_t lane = 0; lane < p.trace.lanes(); ++lane)
      p.work.work_s.row(op)[lane] = random_of(op_of(p.trace, op, lane), seed);
  }
  const auto naive = job.times([seed](const NaiveOp& op) { return random_of(op, seed); }, false).step_s;
  const auto steps = replay_steps_s(p.trace, p.graph, p.work.work_s);
  for (size_t i = 0; i < naive.size(); ++i) RC_ASSERT(near(steps[i], naive[i]));
}

TEST(Replay, ImpossibleSplitsAreCountedAndSmallOnesKept) {
  NaiveJob job{.stages = 2, .dp_size = 2, .steps = 2, .microbatches = 1};
  auto rows = job.rows();
  for (TraceRow& row : rows) {
    // One receive seems to end before its peer has sent: by 20 ms in one step, by 5 ms in the other.
    // It sends at 2 s, after all-gather and forward.
    if (row.type == OpType::kForwardRecv && row.dp_rank == 1)
      row.duration_s = 2 - row.start_s - (row.step == 10 ? 0.02 : 0.005);
  }
  auto trace = make_op_trace(rows, "t.csv");
  ASSERT_TRUE(trace);
  const auto graph = make_op_graph(*trace, "t.csv");
  ASSERT_TRUE(graph);
  const Work work = split_work(*trace, *graph);
  EXPECT_EQ(work.impossible, 1u);
  EXPECT_NEAR(work.least_s, -0.02, 1e-9);
  ASSERT_TRUE(work.worst);
  EXPECT_EQ(text(trace->names[*work.worst]), "forward-recv 0 of stage 1");
  EXPECT_EQ(work.work_s.row(*work.worst)[1], 0);
  EXPECT_NEAR(work.work_s.row(*work.worst)[3], -0.005, 1e-9);
}

}  // namespace
}  // namespace stepscope::replay
