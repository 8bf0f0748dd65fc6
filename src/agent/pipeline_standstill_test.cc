// A step that does not end forbids "healthy"; what takes long by nature does not.
#include "agent/pipeline.h"

#include <gtest/gtest.h>

#include "written_rings.h"

namespace stepscope {
namespace {

bool says_healthy(const Snapshot& snapshot) {
  return !of_kind(snapshot, FindingKind::kComputeBound).empty() || !of_kind(snapshot, FindingKind::kBalanced).empty();
}

constexpr uint64_t kSecondNs = 1'000'000'000;

// Two ranks that train well; then rank 1 begins something that it does not end, and rank 0 waits for it in backward.
class StandstillTest : public PipelineTest {
 protected:
  void begin(Kind stuck, Kind meanwhile = Kind::kBackward) {
    a_ = std::make_unique<Writer>(root_, 0, 10), b_ = std::make_unique<Writer>(root_, 1, 11);
    pipeline_ = std::make_unique<Pipeline>(EngineOptions{});
    a_id_ = pipeline_->add(a_->tail()), b_id_ = pipeline_->add(b_->tail());
    for (int i = 0; i < 40; ++i) {
      a_->busy_step(), b_->busy_step();
      pipeline_->pump(b_->now());
    }
    a_->put(meanwhile, Edge::kBegin), b_->put(stuck, Edge::kBegin);
    stuck_ns_ = b_->now();
    pipeline_->pump(stuck_ns_);
    EXPECT_TRUE(says_healthy(pipeline_->snapshot()));
  }
  Snapshot after(uint64_t seconds) {
    pipeline_->pump(stuck_ns_ + seconds * kSecondNs);
    return pipeline_->snapshot();
  }

  std::unique_ptr<Writer> a_, b_;
  std::unique_ptr<Pipeline> pipeline_;
  Pipeline::TailId a_id_{}, b_id_{};
  uint64_t stuck_ns_ = 0;
};

TEST_F(StandstillTest, AStepThatDoesNotEndForbidsHealthyAtOnce) {
  begin(Kind::kBackward);
  EXPECT_TRUE(says_healthy(after(3)));
  const Snapshot still = after(20);
  EXPECT_FALSE(says_healthy(still));
  const auto said = of_kind(still, FindingKind::kIncompleteData);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].phase, "backward");
  EXPECT_EQ(said[0].severity, Severity::kWarn);
  EXPECT_NEAR(said[0].cost_seconds, 20, 0.2);
  // It was only long: what follows is judged as before.
  a_->skip(25 * kSecondNs), b_->skip(25 * kSecondNs);
  a_->put(Kind::kBackward, Edge::kEnd), b_->put(Kind::kBackward, Edge::kEnd);
  for (int i = 0; i < 60; ++i) {
    a_->busy_step(), b_->busy_step();
    pipeline_->pump(b_->now());
  }
  EXPECT_TRUE(of_kind(pipeline_->snapshot(), FindingKind::kIncompleteData).empty());
}

TEST_F(StandstillTest, ItStaysForbiddenWhereSomebodyThenStopsTheRun) {
  begin(Kind::kFetch);
  const uint64_t stopped_ns = stuck_ns_ + 60 * kSecondNs;
  pipeline_->pump(stopped_ns);
  pipeline_->interrupted(static_cast<int64_t>(stopped_ns));
  for (const auto id : {a_id_, b_id_}) pipeline_->end_tail(id, stopped_ns + kSecondNs, kTerminated);
  pipeline_->finish(stopped_ns + kSecondNs);
  EXPECT_FALSE(says_healthy(pipeline_->snapshot()));
  EXPECT_EQ(of_kind(pipeline_->snapshot(), FindingKind::kIncompleteData).size(), 1u);
}

TEST_F(StandstillTest, AStopThatTakesLongIsNoStandstill) {
  begin(Kind::kForward);
  pipeline_->interrupted(static_cast<int64_t>(stuck_ns_ + 1));
  for (const auto id : {a_id_, b_id_}) pipeline_->end_tail(id, stuck_ns_ + 30 * kSecondNs, kTerminated);
  pipeline_->finish(stuck_ns_ + 30 * kSecondNs);
  EXPECT_TRUE(says_healthy(pipeline_->snapshot()));
}

TEST_F(StandstillTest, WaitingForARankThatSavesForMinutesIsNone) {
  begin(Kind::kSave);
  EXPECT_TRUE(says_healthy(after(120)));
  EXPECT_FALSE(says_healthy(after(900)));
}

TEST_F(StandstillTest, ALongWayOutIsNone) {
  begin(Kind::kTeardown, Kind::kTeardown);
  EXPECT_TRUE(says_healthy(after(900)));
}

}  // namespace
}  // namespace stepscope
