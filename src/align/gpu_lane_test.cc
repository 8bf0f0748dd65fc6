// The second ledger: boundary events of the compute stream in, device steps out.
#include "align/gpu_lane.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <numeric>

#include "blackbox/event_kind.h"

namespace stepscope {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kOffset = 5'000'000'000;  // the GPU's clock starts elsewhere

// One stream: events at GPU times, marked by the host when it says.
class Stream {
 public:
  void at(double gpu_ms, Kind kind, Edge edge, double host_ms, uint16_t flags = 0, uint64_t id = 1) {
    const auto gpu_ns = static_cast<int64_t>(gpu_ms * 1e6);
    lane.mark(static_cast<int64_t>(host_ms * 1e6), pack_kind(kind, edge), id, gpu_ns + kOffset, gpu_ns, flags);
  }
  // Forward, backward, optimizer of one step that ends at host time `end_ms`; the GPU lags `lag_ms` behind.
  void step(double begin_ms, double lag_ms, uint16_t flags = 0) {
    const double h = begin_ms, g = begin_ms + lag_ms;
    at(g, Kind::kForward, Edge::kBegin, h + 0.1, flags), at(g + 4, Kind::kForward, Edge::kEnd, h + 1, flags);
    at(g + 4, Kind::kBackward, Edge::kBegin, h + 1.1, flags), at(g + 10, Kind::kBackward, Edge::kEnd, h + 3, flags);
    at(g + 10.5, Kind::kOptimizer, Edge::kBegin, h + 3.1, flags),
        at(g + 12, Kind::kOptimizer, Edge::kEnd, h + 4, flags);
  }
  GpuLane lane;
};

double ms(const GpuStep& s, Category c) { return static_cast<double>(s.own[index(c)]) * 1e-6; }

int64_t sum(const LedgerNs& own) { return std::accumulate(own.begin(), own.end(), int64_t{0}); }

TEST(GpuLane, PhasesLieBetweenTheirEventsOnTheDevice) {
  Stream s;
  s.step(0, 1);
  EXPECT_FALSE(s.lane.take(0, 5 * kMs));  // the first step has no boundary before it
  s.step(13, 1);
  const auto step = s.lane.take(5 * kMs, 18 * kMs);
  ASSERT_TRUE(step);
  EXPECT_EQ(step->wall_ns, 13 * kMs);  // last optimizer end to last optimizer end
  EXPECT_DOUBLE_EQ(ms(*step, Category::kForward), 4);
  EXPECT_DOUBLE_EQ(ms(*step, Category::kBackward), 6);
  EXPECT_DOUBLE_EQ(ms(*step, Category::kOptimizer), 1.5);
  EXPECT_DOUBLE_EQ(ms(*step, Category::kUnattributed), 1.5);  // 1 before forward, 0.5 before the optimizer
  EXPECT_EQ(step->host_bound, 0u);
  EXPECT_FALSE(step->captured);
}

TEST(GpuLane, IdleTimeBetweenPhasesBelongsToWhatTheHostDid) {
  Stream s;
  s.step(0, 1);
  s.lane.take(0, 5 * kMs);
  s.lane.host_span(13 * kMs, 20 * kMs, Category::kInputWait, false);
  s.step(20, 0);
  const auto step = s.lane.take(5 * kMs, 25 * kMs);
  ASSERT_TRUE(step);
  EXPECT_DOUBLE_EQ(ms(*step, Category::kInputWait), 7);
}

TEST(GpuLane, APhaseThatRanDryAtItsEndIsHostBound) {
  Stream s;
  s.step(0, 1);
  s.lane.take(0, 5 * kMs);
  s.step(13, 0, kGpuHostBound);
  const auto step = s.lane.take(5 * kMs, 18 * kMs);
  ASSERT_TRUE(step);
  for (Category c : {Category::kForward, Category::kBackward, Category::kOptimizer})
    EXPECT_TRUE(step->host_bound >> index(c) & 1) << name(c);
}

TEST(GpuLane, LaunchingIsWhatTheHostStillDidWhileThePhaseRan) {
  Stream s;
  s.step(0, 1);
  s.lane.take(0, 5 * kMs);
  // Forward runs from 13 to 18 on the device and is left by the host at 16.5; backward's launches are behind it before
  // it begins there; the optimizer's kernels end before the host has left it.
  s.at(13, Kind::kForward, Edge::kBegin, 13), s.at(18, Kind::kForward, Edge::kEnd, 16.5);
  s.at(18, Kind::kBackward, Edge::kBegin, 16.6), s.at(24, Kind::kBackward, Edge::kEnd, 17.5);
  s.at(24, Kind::kOptimizer, Edge::kBegin, 24), s.at(26, Kind::kOptimizer, Edge::kEnd, 26.1);
  const auto step = s.lane.take(5 * kMs, 27 * kMs);
  ASSERT_TRUE(step);
  const auto launching = [&](Category c) { return static_cast<double>(step->launching[index(c)]) * 1e-6; };
  EXPECT_DOUBLE_EQ(launching(Category::kForward), 3.5);
  EXPECT_DOUBLE_EQ(launching(Category::kBackward), 0);
  EXPECT_DOUBLE_EQ(launching(Category::kOptimizer), 2);
  EXPECT_DOUBLE_EQ(launching(Category::kUnattributed), 0);
}

TEST(GpuLane, ADryBeginSaysNothingAboutThePhase) {
  // After .item() the stream is empty when forward begins, and full when it ends.
  Stream s;
  s.step(0, 1);
  s.lane.take(0, 5 * kMs);
  s.at(14, Kind::kForward, Edge::kBegin, 13.1, kGpuHostBound), s.at(18, Kind::kForward, Edge::kEnd, 14);
  s.at(19, Kind::kOptimizer, Edge::kBegin, 15), s.at(20, Kind::kOptimizer, Edge::kEnd, 16);
  const auto step = s.lane.take(5 * kMs, 17 * kMs);
  ASSERT_TRUE(step);
  EXPECT_EQ(step->host_bound, 0u);
}

TEST(GpuLane, TheTailOfABackwardThatMetOthersIsAStall) {
  Stream s;
  s.step(0, 1);
  s.lane.take(0, 5 * kMs);
  s.at(14, Kind::kBackward, Edge::kBegin, 13), s.at(20, Kind::kBackwardOwn, Edge::kMark, 14);
  s.at(23, Kind::kBackward, Edge::kEnd, 15);
  s.at(23, Kind::kOptimizer, Edge::kBegin, 16), s.at(24, Kind::kOptimizer, Edge::kEnd, 17);
  s.lane.backward_meets(15 * kMs, 77, 3);
  const auto step = s.lane.take(5 * kMs, 18 * kMs);
  ASSERT_TRUE(step);
  ASSERT_EQ(step->stalls.size(), 1u);
  EXPECT_EQ(step->stalls[0].duration_ns, 3 * kMs);
  EXPECT_EQ(step->stalls[0].group, 77u);
  EXPECT_EQ(step->stalls[0].sequence, 3u);
  EXPECT_DOUBLE_EQ(ms(*step, Category::kBackward), 6);
}

TEST(GpuLane, WithoutACollectiveTheTailIsOwnWork) {
  Stream s;
  s.step(0, 1);
  s.lane.take(0, 5 * kMs);
  s.at(14, Kind::kBackward, Edge::kBegin, 13), s.at(20, Kind::kBackwardOwn, Edge::kMark, 14);
  s.at(23, Kind::kBackward, Edge::kEnd, 15);
  s.at(23, Kind::kOptimizer, Edge::kBegin, 16), s.at(24, Kind::kOptimizer, Edge::kEnd, 17);
  const auto step = s.lane.take(5 * kMs, 18 * kMs);
  ASSERT_TRUE(step);
  EXPECT_TRUE(step->stalls.empty());
  EXPECT_DOUBLE_EQ(ms(*step, Category::kBackward), 9);
}

TEST(GpuLane, WaitPointsInsideAPhaseAreStallsOfTheirOwn) {
  Stream s;
  s.step(0, 1);
  s.lane.take(0, 5 * kMs);
  s.at(14, Kind::kForward, Edge::kBegin, 13);
  s.at(15, Kind::kWait, Edge::kBegin, 13.2), s.at(17, Kind::kWait, Edge::kEnd, 13.4);  // an all-gather is waited for
  s.at(20, Kind::kForward, Edge::kEnd, 14);
  s.at(20, Kind::kOptimizer, Edge::kBegin, 16), s.at(21, Kind::kOptimizer, Edge::kEnd, 17);
  const auto step = s.lane.take(5 * kMs, 18 * kMs);
  ASSERT_TRUE(step);
  ASSERT_EQ(step->stalls.size(), 1u);
  EXPECT_EQ(step->stalls[0].duration_ns, 2 * kMs);
  EXPECT_EQ(step->stalls[0].phase, Category::kForward);
  EXPECT_DOUBLE_EQ(ms(*step, Category::kForward), 4);
  ASSERT_EQ(step->segments.size(), 2u);
  EXPECT_TRUE(step->stalls[0].sync_point.counted) << "nobody told which collective it is";
}

// Stalls of a forward in which the stream waits at these points, one after the other.
struct WaitPoint {
  GpuWaitPoint point;
  double host_ms;
};
std::vector<Stall> stalls_at(Stream& s, const std::vector<WaitPoint>& points) {
  s.at(14, Kind::kForward, Edge::kBegin, 13);
  double gpu_ms = 15;
  for (const WaitPoint& p : points) {
    s.at(gpu_ms, Kind::kWait, Edge::kBegin, p.host_ms, 0, static_cast<uint64_t>(p.point));
    s.at(gpu_ms + 1, Kind::kWait, Edge::kEnd, p.host_ms + 0.05, 0, static_cast<uint64_t>(p.point));
    gpu_ms += 2;
  }
  s.at(gpu_ms, Kind::kForward, Edge::kEnd, 15);
  s.at(gpu_ms, Kind::kOptimizer, Edge::kBegin, 16), s.at(gpu_ms + 1, Kind::kOptimizer, Edge::kEnd, 17);
  const auto step = s.lane.take(5 * kMs, 18 * kMs);
  return step ? step->stalls : std::vector<Stall>{};
}

TEST(GpuLane, AWaitPointIsForWhatTheHostWaitsFor) {
  constexpr uint64_t kTensor = 5, kPipe = 6;
  Stream s;
  s.step(0, 1);
  s.lane.take(0, 5 * kMs);
  const StallSyncPoint from_two{.peer = 2};
  s.lane.host_waits(13'100'000, kTensor, 41, {}), s.lane.host_waited(13'200'000);
  s.lane.host_waits(13'300'000, kPipe, 7, from_two), s.lane.host_waited(13'400'000);
  const auto stalls =
      stalls_at(s, {{GpuWaitPoint::kWork, 13.11}, {GpuWaitPoint::kWork, 13.31}, {GpuWaitPoint::kWork, 13.5}});
  ASSERT_EQ(stalls.size(), 3u);
  EXPECT_EQ(stalls[0].group, kTensor);
  EXPECT_EQ(stalls[0].sequence, 41u);
  EXPECT_EQ(stalls[0].sync_point, StallSyncPoint{});
  EXPECT_EQ(stalls[1].group, kPipe);
  EXPECT_EQ(stalls[1].sequence, 7u);
  EXPECT_EQ(stalls[1].sync_point, from_two);
  EXPECT_TRUE(stalls[2].sync_point.counted) << "the host waited for nothing then";
}

TEST(GpuLane, WaitPointsOfALibraryBelongToTheGroupOfTheirOperation) {
  constexpr uint64_t kShards = 5, kReplicas = 6, kOthers = 7;
  const auto op = [](CollectiveOp o) { return static_cast<uint8_t>(o); };
  Stream s;
  s.step(0, 1);
  s.lane.take(0, 5 * kMs);
  s.lane.issued(6 * kMs, op(CollectiveOp::kAllGather), kShards);
  s.lane.issued(7 * kMs, op(CollectiveOp::kReduceScatter), kShards);
  s.lane.issued(8 * kMs, op(CollectiveOp::kAllReduce), kReplicas);
  s.lane.issued(13'350'000, op(CollectiveOp::kAllGather), kOthers);  // a second model, in another group
  const auto stalls = stalls_at(s, {{GpuWaitPoint::kFsdpUnshard, 13.1},
                                    {GpuWaitPoint::kFsdpUnshard, 13.2},
                                    {GpuWaitPoint::kFsdpReduceScatter, 13.3},
                                    {GpuWaitPoint::kFsdpUnshard, 13.4}});
  ASSERT_EQ(stalls.size(), 4u);
  for (const Stall& stall : stalls) EXPECT_FALSE(stall.sync_point.counted);
  EXPECT_EQ(stalls[0].group, kShards);
  EXPECT_EQ(stalls[1].group, kShards);
  EXPECT_EQ(stalls[1].sequence, stalls[0].sequence + 1) << "its place among the waits of the step";
  EXPECT_EQ(stalls[2].group, kShards);
  EXPECT_NE(stalls[2].sequence, stalls[0].sequence);
  EXPECT_NE(stalls[2].sequence, stalls[1].sequence);
  EXPECT_EQ(stalls[3].group, kOthers);
  EXPECT_EQ(stalls[3].sequence, stalls[0].sequence) << "counted in its own group";
}

TEST(GpuLane, AStallEndsWithTheLastCollective) {
  Stream s;
  s.step(0, 1);
  s.lane.take(0, 5 * kMs);
  s.at(14, Kind::kBackward, Edge::kBegin, 13), s.at(20, Kind::kBackwardOwn, Edge::kMark, 14);
  s.at(23, Kind::kBackward, Edge::kEnd, 15);
  s.at(23, Kind::kOptimizer, Edge::kBegin, 16), s.at(24, Kind::kOptimizer, Edge::kEnd, 17);
  s.lane.backward_meets(15 * kMs, 77, 3);
  auto step = s.lane.take(5 * kMs, 18 * kMs);
  ASSERT_TRUE(step);
  StallEnds ends;
  GpuStep untouched = *step, untimed = *step, other = *step;
  ends.apply({{.begin_ns = 1 * kMs, .end_ns = 2 * kMs}}, untouched);  // long over
  EXPECT_EQ(untouched.stalls[0].duration_ns, 3 * kMs);
  ends.apply({{.begin_ns = 15 * kMs, .end_ns = 18 * kMs}, {.begin_ns = 19 * kMs, .end_ns = 21 * kMs}}, *step);
  EXPECT_EQ(step->stalls[0].duration_ns, 1 * kMs);
  EXPECT_DOUBLE_EQ(ms(*step, Category::kBackward), 8);
  EXPECT_EQ(sum(step->own) + step->stalls[0].duration_ns, step->wall_ns);
  EXPECT_EQ(step->segments[1][index(Category::kBackward)], 2 * kMs);

  ends.apply({}, untimed);  // as in the newest step that was timed
  EXPECT_EQ(untimed.stalls[0].duration_ns, 1 * kMs);
  EXPECT_EQ(sum(untimed.own) + untimed.stalls[0].duration_ns, untimed.wall_ns);
  other.stalls.push_back(other.stalls[0]);
  other.segments.emplace_back();
  ends.apply({}, other);  // not alike
  EXPECT_EQ(other.stalls[0].duration_ns, 3 * kMs);
}

TEST(GpuLane, ACapturedStepIsTimedAsAWhole) {
  Stream s;
  s.step(0, 1);
  s.lane.take(0, 5 * kMs);
  s.lane.mark(14 * kMs, pack_kind(Kind::kForward, Edge::kBegin), 1, 0, 0, kGpuCaptured);
  s.lane.mark(15 * kMs, pack_kind(Kind::kForward, Edge::kEnd), 1, 0, 0, kGpuCaptured);
  s.at(23, Kind::kOptimizer, Edge::kBegin, 16), s.at(24, Kind::kOptimizer, Edge::kEnd, 17);
  const auto step = s.lane.take(5 * kMs, 18 * kMs);
  ASSERT_TRUE(step);
  EXPECT_TRUE(step->captured);
  EXPECT_EQ(step->wall_ns, 11 * kMs);
}

TEST(GpuLane, WaitsForEventsThatAreStillToCome) {
  Stream s;
  EXPECT_FALSE(s.lane.wants(5 * kMs, 6 * kMs)) << "no GPU was seen";
  s.step(0, 1);
  EXPECT_TRUE(s.lane.wants(5 * kMs, 6 * kMs));
  EXPECT_FALSE(s.lane.wants(5 * kMs, 5 * kMs + GpuLane::kPatienceNs + 1)) << "patience is limited";
  s.at(20, Kind::kForward, Edge::kBegin, 5.5);
  EXPECT_FALSE(s.lane.wants(5 * kMs, 6 * kMs)) << "an event marked after the step shows that its own are here";
}

TEST(GpuLane, EveryStepIsCoveredExactly) {
  rc::check("sum(own) + sum(stalls) == wall; segments add up to own", [] {
    GpuLane lane;
    int64_t host = 0, gpu = 0;
    const auto steps = *rc::gen::inRange(2, 12);
    for (int i = 0; i < steps; ++i) {
      const int64_t begin = host;
      const auto marks = *rc::gen::inRange(1, 12);
      for (int k = 0; k < marks; ++k) {
        host += *rc::gen::inRange<int64_t>(1, 3 * kMs);
        gpu = std::max(gpu, host) + *rc::gen::inRange<int64_t>(0, 3 * kMs);
        const Kind kind = *rc::gen::element(Kind::kForward, Kind::kBackward, Kind::kBackwardOwn, Kind::kOptimizer,
                                            Kind::kH2d, Kind::kWait);
        const Edge edge = kind == Kind::kBackwardOwn ? Edge::kMark : *rc::gen::element(Edge::kBegin, Edge::kEnd);
        lane.mark(host, pack_kind(kind, edge), *rc::gen::inRange<uint64_t>(1, 3), gpu + kOffset, gpu,
                  *rc::gen::element<uint16_t>(0, kGpuHostBound));
        if (*rc::gen::inRange(0, 4) == 0) lane.host_span(host - kMs, host, Category::kInputWait, false);
        if (*rc::gen::inRange(0, 4) == 0) lane.backward_meets(host, 9, static_cast<uint64_t>(k));
      }
      host += 1;
      const auto step = lane.take(begin, host);
      if (!step) continue;
      int64_t stalls = 0;
      for (const Stall& s : step->stalls) stalls += s.duration_ns;
      RC_ASSERT(sum(step->own) + stalls == step->wall_ns);
      RC_ASSERT(step->segments.size() == step->stalls.size() + 1);
      LedgerNs parts{};
      for (const LedgerNs& segment : step->segments)
        for (size_t c = 0; c < kCategoryCount; ++c) parts[c] += segment[c];
      RC_ASSERT(parts == step->own);
    }
  });
}

}  // namespace
}  // namespace stepscope
