// When a verdict on a job that stands still is taken back, and when it stays.
#include "agent/hang_watch.h"

#include <gtest/gtest.h>

#include "written_rings.h"

namespace stepscope {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;

// Two ranks that train; then rank 1 stays in a phase while rank 0 waits for it in backward, until the verdict is there.
class HangWatchTest : public PipelineTest {
 protected:
  void SetUp() override {
    PipelineTest::SetUp();
    a_ = std::make_unique<Writer>(root_, 0, 10), b_ = std::make_unique<Writer>(root_, 1, 11);
    pipeline_ = std::make_unique<Pipeline>(EngineOptions{});
    a_id_ = pipeline_->add(a_->tail()), b_id_ = pipeline_->add(b_->tail());
    for (int i = 0; i < 40; ++i) {
      a_->busy_step(), b_->busy_step();
      look(b_->now());
    }
    a_->put(Kind::kBackward, Edge::kBegin), b_->put(Kind::kForward, Edge::kBegin);
    pass(20);
    ASSERT_TRUE(watch_.verdict());
    ASSERT_EQ(watch_.verdict()->kind, FindingKind::kHang);
  }
  void look(uint64_t now_ns) {
    now_ns_ = now_ns;
    pipeline_->pump(now_ns);
    news_ = watch_.look(*pipeline_, now_ns);
    if (!news_.text.empty()) said_.push_back(news_.text);
  }
  void pass(double seconds) {
    const uint64_t start_ns = std::max({now_ns_, a_->now(), b_->now()});
    for (double s = 0.2; s <= seconds; s += 0.2) look(start_ns + static_cast<uint64_t>(s * 1e9));
    a_->skip(now_ns_ - a_->now()), b_->skip(now_ns_ - b_->now());
  }
  // Both waits end, as they do where an operation fails for its timeout.
  void waits_end() { a_->put(Kind::kBackward, Edge::kEnd), b_->put(Kind::kForward, Edge::kEnd); }
  void raises(Writer& rank) { rank.put(Kind::kException, Edge::kMark, 7); }

  std::unique_ptr<Writer> a_, b_;
  std::unique_ptr<Pipeline> pipeline_;
  Pipeline::TailId a_id_{}, b_id_{};
  HangWatch watch_{{.limits = Thresholds{}, .timeout_s = 0, .stacks = false}};
  HangWatch::News news_;
  std::vector<std::string> said_;
  uint64_t now_ns_ = 0;
};

TEST_F(HangWatchTest, AWaitThatEndsInAnExceptionIsNoProgress) {
  waits_end();
  pass(0.6);  // seen before the exception was
  raises(*a_), raises(*b_);
  pass(8);
  EXPECT_TRUE(watch_.verdict());
  for (const auto id : {a_id_, b_id_}) pipeline_->end_tail(id, now_ns_, 0x100);
  pass(8);
  EXPECT_TRUE(watch_.verdict());
}

TEST_F(HangWatchTest, NeitherIsTheWayOut) {
  waits_end();
  a_->put(Kind::kTeardown, Edge::kBegin), b_->put(Kind::kTeardown, Edge::kBegin);
  pass(8);
  EXPECT_TRUE(watch_.verdict());
}

TEST_F(HangWatchTest, AnotherStepIs) {
  waits_end();
  for (int i = 0; i < 3; ++i) a_->busy_step(), b_->busy_step();
  pass(1);
  EXPECT_FALSE(watch_.verdict());
  EXPECT_NE(said_.back().find("the job goes on after"), std::string::npos);
}

TEST_F(HangWatchTest, SoAreRecordsThatKeepComing) {
  waits_end();
  const auto forwards = [&](int seconds) {
    for (int i = 0; i < seconds; ++i) {
      for (Writer* rank : {a_.get(), b_.get()}) rank->put(Kind::kForward, i % 2 ? Edge::kEnd : Edge::kBegin);
      pass(1);
    }
  };
  forwards(4);
  EXPECT_TRUE(watch_.verdict());
  forwards(4);
  EXPECT_FALSE(watch_.verdict());
}

}  // namespace
}  // namespace stepscope
