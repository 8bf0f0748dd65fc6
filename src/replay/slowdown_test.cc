#include "replay/slowdown.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "naive_job.h"
#include "replay/cause.h"

namespace stepscope::replay {
namespace {

using examples::NaiveJob;
using examples::NaiveOp;

Slowdown judged(const std::vector<TraceRow>& rows) {
  const auto trace = make_op_trace(rows, "t.csv");
  if (!trace) throw std::runtime_error(trace.error().message);
  auto out = judge_slowdown(*trace, "t.csv");
  if (!out) throw std::runtime_error(out.error().message);
  return std::move(*out);
}

double of(const std::vector<GroupFigure>& groups, std::string_view name) {
  return std::ranges::find(groups, name, &GroupFigure::name)->slowdown;
}

// Work of a realistic shape: computes carry the step.
double usual_work_s(const NaiveOp& op) {
  if (op.type == OpType::kForwardCompute) return 0.100;
  if (op.type == OpType::kBackwardCompute) return 0.200;
  return op.type == OpType::kGc ? 0 : 0.002;
}

Slowdown with(std::function<double(const NaiveOp&)> factor,
              NaiveJob job = {.stages = 4, .dp_size = 4, .steps = 3, .microbatches = 8}) {
  job.work_s = [factor](const NaiveOp& op) { return usual_work_s(op) * factor(op); };
  return judged(job.rows());
}

std::vector<Cause> causes(const Slowdown& s) {
  std::vector<Cause> out;
  for (const auto& named : judge_cause(s).causes) out.push_back(named.cause);
  return out;
}

bool computes(const NaiveOp& op) { return is_compute(op.type); }

TEST(Slowdown, TheWorkedTraceIsExact) {
  std::ifstream file(SS_SOURCE_DIR "/tests/data/traces/tiny.csv");
  std::stringstream text;
  text << file.rdbuf();
  const auto rows = parse_trace_csv(text.str(), "tiny.csv");
  ASSERT_TRUE(rows);
  const Slowdown s = judged(*rows);
  EXPECT_DOUBLE_EQ(s.recorded_s, 12.5);
  EXPECT_DOUBLE_EQ(s.replayed_s, 12.5);
  EXPECT_DOUBLE_EQ(s.ideal_s, 11.5);
  EXPECT_DOUBLE_EQ(s.slowdown, 25.0 / 23);
  EXPECT_DOUBLE_EQ(s.launch, 1);
  EXPECT_DOUBLE_EQ(*s.ideal_s_by_type[static_cast<size_t>(OpType::kForwardCompute)], 1.5);
  for (const GroupFigure& group : s.by_type)
    EXPECT_DOUBLE_EQ(group.slowdown, group.name == "forward-compute" ? 25.0 / 23 : 1.0) << group.name;
  EXPECT_DOUBLE_EQ(of(s.by_stage, "stage 0"), 13 / 11.5);
  EXPECT_DOUBLE_EQ(of(s.by_stage, "stage 1"), 11 / 11.5);
  EXPECT_DOUBLE_EQ(of(s.by_dp_rank, "dp rank 0"), 1);
  EXPECT_DOUBLE_EQ(of(s.by_dp_rank, "dp rank 1"), 25.0 / 23);
  EXPECT_EQ((std::array{s.workers[0].rank, s.workers[0].stage, s.workers[0].dp_rank}), (std::array{1, 0, 1}));
  EXPECT_DOUBLE_EQ(*s.shares.slowest_workers, 1.5);
  EXPECT_DOUBLE_EQ(*s.shares.last_stage, -0.5);
  EXPECT_EQ(s.operations, 44u);
  EXPECT_EQ(s.impossible_splits, 0u);
  EXPECT_EQ(s.closure_error_s, 0);
}

// S and T(I) of any job against the slow replay with ideals found the slow way.
RC_GTEST_PROP(Slowdown, IsThatOfTheSlowReplay, ()) {
  NaiveJob job{.stages = *rc::gen::inRange(1, 4),
               .dp_size = *rc::gen::inRange(1, 4),
               .steps = *rc::gen::inRange(1, 3),
               .microbatches = *rc::gen::inRange(1, 4)};
  std::map<NaiveOp, double> work;
  for (const NaiveOp& op : job.ops()) work[op] = *rc::gen::inRange(1, 1000) * 1e-3;
  job.work_s = [&](const NaiveOp& op) { return work.at(op); };
  std::map<OpType, std::vector<double>> pools;
  for (const auto& [op, s] : work) pools[op.type].push_back(s);
  std::map<OpType, double> ideal;
  for (auto& [type, values] : pools) {
    std::ranges::sort(values);
    const size_t n = values.size();
    double sum = 0;
    for (const double value : values) sum += value;
    const bool averaged = is_compute(type) || type == OpType::kGc || type == OpType::kOptimizer;
    ideal[type] = averaged ? sum / static_cast<double>(n) : (values[(n - 1) / 2] + values[n / 2]) / 2;
  }
  const auto mean = [&](const std::function<double(const NaiveOp&)>& chosen) {
    double sum = 0;
    for (const double s : job.times(chosen, false).step_s) sum += s;
    return sum / job.steps;
  };
  const auto keep = [&](const std::function<bool(const NaiveOp&)>& kept) {
    return mean([&](const NaiveOp& op) { return kept(op) ? work.at(op) : ideal.at(op.type); });
  };
  const Slowdown s = judged(job.rows());
  const double all = mean(job.work_s), none = keep([](const NaiveOp&) { return false; });
  RC_ASSERT(std::abs(s.ideal_s - none) < 1e-9);
  RC_ASSERT(std::abs(s.slowdown - all / none) < 1e-9);
  RC_ASSERT(std::abs(of(s.by_stage, "stage 0") - keep([](const NaiveOp& op) { return op.stage == 0; }) / none) < 1e-9);
  RC_ASSERT(std::abs(of(s.by_dp_rank, "dp rank 0") - keep([](const NaiveOp& op) { return op.dp == 0; }) / none) < 1e-9);
  for (const GroupFigure& group : s.by_type) {
    const double t = keep([&](const NaiveOp& op) { return figure_name(op.type) == group.name; });
    RC_ASSERT(std::abs(group.slowdown - t / none) < 1e-9);
  }
  if (job.stages > 1 && std::abs(all - none) > 1e-6) {
    const double fixed = keep([&](const NaiveOp& op) { return op.stage < job.stages - 1; });
    RC_ASSERT(std::abs(*s.shares.last_stage - (all - fixed) / (all - none)) < 1e-6);
  }
}

TEST(Cause, AHealthyJobDoesNotStraggle) {
  const Slowdown s = with([](const NaiveOp&) { return 1.0; });
  EXPECT_NEAR(s.slowdown, 1, 1e-9);
  EXPECT_EQ(judge_cause(s).straggling, Straggling::kNone);
  EXPECT_TRUE(judge_cause(s).causes.empty());
}

TEST(Cause, ASlowWorkerIsNamed) {
  const Slowdown s = with([](const NaiveOp& op) { return computes(op) && op.stage == 2 && op.dp == 1 ? 1.8 : 1; });
  const Verdict verdict = judge_cause(s);
  EXPECT_EQ(verdict.straggling, Straggling::kClear);
  EXPECT_EQ(causes(s), (std::vector{Cause::kSlowWorkers}));
  ASSERT_EQ(verdict.slow_workers.size(), 1u);
  EXPECT_EQ(verdict.slow_workers[0].rank, 9);
  EXPECT_FALSE(verdict.worker_or_stage);
}

TEST(Cause, OfTheSlowestOnlyThoseThatAreSlowAreNamed) {
  const NaiveJob wide{.stages = 2, .dp_size = 20, .steps = 1, .microbatches = 4};  // 3 % of 40 workers: 2
  const Slowdown s = with([](const NaiveOp& op) { return computes(op) && op.stage == 1 && op.dp == 7 ? 2 : 1; }, wide);
  EXPECT_EQ(s.slowest_count, 2u);
  ASSERT_EQ(judge_cause(s).slow_workers.size(), 1u);
  EXPECT_EQ(judge_cause(s).slow_workers[0].rank, 27);
}

TEST(Cause, ALastStageThatIsTooLongIsNoWorker) {
  const Slowdown s = with([](const NaiveOp& op) { return computes(op) && op.stage == 3 ? 1.5 : 1; });
  EXPECT_EQ(causes(s), (std::vector{Cause::kLongLastStage}));
  EXPECT_TRUE(judge_cause(s).slow_workers.empty());
}

TEST(Cause, MicrobatchesOfUnequalLengthAreNoWorker) {
  const Slowdown s = with(
      [](const NaiveOp& op) { return computes(op) ? 0.6 + 0.8 * ((op.seq * 7 + op.dp * 3 + op.step) % 5) / 4.0 : 1; });
  EXPECT_EQ(causes(s), (std::vector{Cause::kUnevenMicrobatches}));
}

TEST(Cause, SlowCommunicationIsNamed) {
  const Slowdown s = with([](const NaiveOp& op) {
    return op.type == OpType::kGradsReduceScatter && op.step != 1 && op.stage < 2 ? 400 : 1;
  });
  EXPECT_EQ(causes(s), (std::vector{Cause::kSlowCommunication}));
  EXPECT_EQ(s.by_type[0].name, "grads-reduce-scatter");
}

TEST(Cause, WithOneReplicaWorkerAndStageLookTheSame) {
  const Slowdown s = with([](const NaiveOp& op) { return computes(op) && op.stage == 3 ? 1.5 : 1; },
                          {.stages = 4, .dp_size = 1, .steps = 2, .microbatches = 8});
  EXPECT_TRUE(judge_cause(s).worker_or_stage);
}

TEST(Cause, OneStageHasNoLastStageAndOneWorkerNoSlowest) {
  const Slowdown flat = with([](const NaiveOp& op) { return computes(op) && op.dp == 1 ? 1.5 : 1; },
                             {.stages = 1, .dp_size = 4, .steps = 2, .microbatches = 4});
  EXPECT_FALSE(flat.shares.last_stage);
  EXPECT_EQ(causes(flat), (std::vector{Cause::kSlowWorkers}));
  const Slowdown alone = with([](const NaiveOp& op) { return op.step == 1 ? 1.5 : 1; },
                              {.stages = 1, .dp_size = 1, .steps = 2, .microbatches = 4});
  EXPECT_FALSE(alone.shares.slowest_workers);
}

TEST(Cause, NothingThatExplainsItIsUnknown) {
  // A middle stage that is too long on all replicas: neither a few workers, nor the last stage, nor microbatches.
  const Slowdown s = with([](const NaiveOp& op) { return computes(op) && op.stage == 1 ? 1.6 : 1; });
  EXPECT_EQ(judge_cause(s).straggling, Straggling::kClear);
  EXPECT_TRUE(causes(s).empty());
}

TEST(Slowdown, NoOptimizerAndNoTimeAreRefused) {
  auto rows = NaiveJob{.stages = 1, .dp_size = 1}.rows();
  for (TraceRow& row : rows) row.duration_s = 0;
  EXPECT_EQ(judge_slowdown(*make_op_trace(rows, "t.csv"), "t.csv").error().message,
            "t.csv: the operations take no time");
  std::erase_if(rows, [](const TraceRow& r) { return r.type == OpType::kOptimizer; });
  EXPECT_EQ(judge_slowdown(*make_op_trace(rows, "t.csv"), "t.csv").error().message,
            "t.csv: no optimizer in it, so no step ends");
}

}  // namespace
}  // namespace stepscope::replay
