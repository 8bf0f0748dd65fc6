// HOST_BOUND, SYNC_STALL and the launch-bound straggler, on both sides of their thresholds.
#include <gtest/gtest.h>

#include "diagnose/engine.h"

namespace stepscope {
namespace {

constexpr double kMs = 1e6;

struct Shape {
  double forward_ms = 5, backward_ms = 9, idle_ms = 0.1, sync_ms = 0;
  uint32_t dry = 0;         // categories that ran dry at their end
  double launching_ms = 0;  // of backward
  int sync_every = 1;
};

constexpr uint32_t bit(Category c) { return 1u << index(c); }
constexpr uint32_t kAllDry = bit(Category::kForward) | bit(Category::kBackward) | bit(Category::kOptimizer);

RankStep step_of(uint32_t number, const Shape& s, double stall_ms, int64_t begin_ns) {
  RankStep step;
  step.step = number;
  step.begin_ns = begin_ns;
  GpuStep gpu;
  const auto put = [&](Category c, double ms) { gpu.own[index(c)] = static_cast<int64_t>(ms * kMs); };
  put(Category::kForward, s.forward_ms), put(Category::kBackward, s.backward_ms), put(Category::kOptimizer, 1);
  put(Category::kUnattributed, s.idle_ms);
  for (int64_t ns : gpu.own) gpu.wall_ns += ns;
  gpu.segments = {gpu.own};
  if (stall_ms >= 0) {
    gpu.stalls = {{7, number, 0, static_cast<int64_t>(stall_ms * kMs), Category::kBackward}};
    gpu.segments.emplace_back();
    gpu.wall_ns += gpu.stalls[0].duration_ns;
  }
  gpu.host_bound = s.dry;
  gpu.launching[index(Category::kBackward)] = static_cast<int64_t>(s.launching_ms * kMs);
  step.own = gpu.own;
  step.segments = gpu.segments;
  step.stalls = gpu.stalls;
  step.end_ns = begin_ns + gpu.wall_ns;
  if (s.sync_ms > 0 && number % static_cast<uint32_t>(s.sync_every) == 0)
    step.sync_ns = static_cast<int64_t>(s.sync_ms * kMs);
  step.gpu = gpu;
  return step;
}

std::vector<Finding> run(const std::vector<Shape>& ranks, RankLife life = {}, uint32_t steps = 80) {
  EngineOptions options;
  options.world_size = static_cast<int>(ranks.size());
  Engine engine(options);
  engine.set_group(7, "dp", {0, 1});
  int64_t now = 0;
  double longest = 0;
  for (const Shape& s : ranks) longest = std::max(longest, s.forward_ms + s.backward_ms + s.idle_ms);
  for (uint32_t i = 0; i < steps; ++i) {
    int64_t end = now;
    for (size_t r = 0; r < ranks.size(); ++r) {
      const Shape& s = ranks[r];
      const double stall = ranks.size() > 1 ? 0.3 + longest - (s.forward_ms + s.backward_ms + s.idle_ms) : -1;
      RankStep step = step_of(i, s, stall, now);
      end = std::max(end, step.end_ns);
      engine.feed(static_cast<int>(r), std::move(step));
    }
    now = end;
    engine.evaluate();
  }
  for (size_t r = 0; r < ranks.size(); ++r) {
    life.rank = static_cast<int>(r), life.steps = steps, life.ended = life.clean_exit = true;
    engine.set_life(static_cast<int>(r), life);
  }
  engine.finish();
  return engine.snapshot().findings;
}

const Finding* find(const std::vector<Finding>& list, FindingKind kind) {
  for (const Finding& f : list)
    if (f.kind == kind) return &f;
  return nullptr;
}

TEST(HostBound, SaidWhenMostPhasesEndDry) {
  const auto findings = run({Shape{.dry = kAllDry}});
  const Finding* f = find(findings, FindingKind::kHostBound);
  ASSERT_TRUE(f);
  EXPECT_EQ(f->severity, Severity::kWarn);
  EXPECT_TRUE(f->job_scope);
  EXPECT_EQ(f->clock, "gpu");
  EXPECT_EQ(f->cost_share, 0) << "not known";
  ASSERT_FALSE(f->evidence.empty());
  EXPECT_GT(*f->evidence[0].value, 0.9);
}

TEST(HostBound, OneDryPhaseOfThreeIsTheEndOfAnyStep) {
  const auto findings = run({Shape{.dry = bit(Category::kOptimizer) | bit(Category::kForward)}});  // 6 of 15 ms
  EXPECT_FALSE(find(findings, FindingKind::kHostBound));
}

TEST(SyncStall, NamesThePlaceThatWaitsLongest) {
  RankLife life;
  life.sync_sites = {{"train.py:12", 80, 300'000'000}, {"train.py:99", 80, 1'000'000}};
  const auto findings = run({Shape{.sync_ms = 3}}, life);
  const Finding* f = find(findings, FindingKind::kSyncStall);
  ASSERT_TRUE(f);
  EXPECT_EQ(f->severity, Severity::kWarn);
  EXPECT_NE(f->title.find("train.py:12"), std::string::npos) << f->title;
  EXPECT_LT(f->cost_share, 0.02) << "what the device surely lost is its idle time only";
}

TEST(SyncStall, ANowAndThenLogLineIsNone) {
  EXPECT_FALSE(find(run({Shape{.sync_ms = 6, .sync_every = 4}}), FindingKind::kSyncStall));
}

TEST(SyncStall, AWaitThatIsOverAtOnceIsNone) {
  EXPECT_FALSE(find(run({Shape{.sync_ms = 0.3}}), FindingKind::kSyncStall));
}

TEST(LaunchBound, ASlowRankWhoseHostLaunchesLongerHasASlowHost) {
  // The last layers' kernels, launched at once, still run after the host has left backward: the phase ends full.
  const auto findings = run({Shape{.launching_ms = 3}, Shape{.backward_ms = 20, .launching_ms = 13}});
  const Finding* f = find(findings, FindingKind::kComputeStraggler);
  ASSERT_TRUE(f);
  EXPECT_EQ(f->ranks, std::vector<int>{1});
  EXPECT_EQ(f->phase, "backward");
  EXPECT_EQ(f->cause, Cause::kLaunchBound);
}

TEST(LaunchBound, ASlowDeviceIsNot) {
  // Launched in the same time as on the other rank, that of a step which begins with an empty stream; and far ahead.
  for (const double launching_ms : {3.0, 0.0}) {
    const auto findings = run({Shape{.launching_ms = 3}, Shape{.backward_ms = 20, .launching_ms = launching_ms}});
    const Finding* f = find(findings, FindingKind::kComputeStraggler);
    ASSERT_TRUE(f);
    EXPECT_NE(f->cause, Cause::kLaunchBound) << launching_ms;
  }
}

TEST(LaunchBound, WhereBothHostsSetThePaceASlowKernelIsNotTheHosts) {
  const auto findings = run({Shape{.launching_ms = 9}, Shape{.backward_ms = 20, .launching_ms = 12}});
  const Finding* f = find(findings, FindingKind::kComputeStraggler);
  ASSERT_TRUE(f);
  EXPECT_NE(f->cause, Cause::kLaunchBound);
}

}  // namespace
}  // namespace stepscope
