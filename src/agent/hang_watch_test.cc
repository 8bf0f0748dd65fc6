// When a verdict on a job that stands still is taken back, and when it stays.
#include "agent/hang_watch.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <fstream>

#include "child.h"
#include "sampler/process_glance.h"
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

TEST_F(HangWatchTest, WhoGivesUpWaitingStaysAVictim) {
  a_->put(Kind::kBackwardOwn, Edge::kMark);
  pass(60);  // it has been silent for 20 s before
  const Finding before = *watch_.verdict();
  ASSERT_EQ(before.victims, std::vector<int>{0});
  a_->put(Kind::kBackward, Edge::kEnd);
  raises(*a_);
  pass(8);
  ASSERT_TRUE(watch_.verdict());
  EXPECT_EQ(watch_.verdict()->title, before.title);
  EXPECT_EQ(watch_.verdict()->victims, before.victims);
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

// The first batch of an epoch may take long, but not while the worker stands in a lock. The worker: a real process.
class WaitsForAWorker : public PipelineTest {
 protected:
  // Seconds after which the watch speaks; 0 = not in 20.
  double speaks_after(uint32_t worker_pid) {
    Writer a(root_, 0, 10, 0, 4096, 1);
    Pipeline pipeline{EngineOptions{}};
    pipeline.add(a.tail());
    HangWatch watch{{.limits = Thresholds{}, .timeout_s = 0, .stacks = false}};
    for (int i = 0; i < 40; ++i) {
      a.busy_step();
      pipeline.pump(a.now());
      watch.look(pipeline, a.now());
    }
    for (const Edge edge : {Edge::kBegin, Edge::kEnd}) a.put(Kind::kLoaderCreate, edge, 1, 1'000'000, 1);
    a.put(Kind::kFetch, Edge::kBegin, 1);
    a.thread = worker_pid;
    a.put(Kind::kWorkerFetch, Edge::kBegin, 0, 1'000'000, 1);
    const uint64_t start_ns = a.now();
    for (double s = 0.2; s <= 20; s += 0.2) {
      const uint64_t now_ns = start_ns + static_cast<uint64_t>(s * 1e9);
      pipeline.pump(now_ns);
      watch.look(pipeline, now_ns);
      if (!watch.verdict()) continue;
      said_ = watch.verdict()->title;
      return s;
    }
    return 0;
  }
  std::string said_;
};

TEST_F(WaitsForAWorker, ThatStandsInALock) {
  static std::atomic<int> word{0};
  const pid_t worker = testing::start_child([] {
    ::syscall(SYS_futex, &word, 0 /* FUTEX_WAIT */, 0, nullptr, nullptr, 0);
    return 0;
  });
  for (int i = 0; i < 200 && lock_that_all_wait_for(worker).empty(); ++i) ::usleep(10'000);
  const bool told = !lock_that_all_wait_for(worker).empty();
  const double after_s = speaks_after(static_cast<uint32_t>(worker));
  ::kill(worker, SIGKILL), testing::wait_for(worker);
  if (!told) GTEST_SKIP() << "the kernel does not tell where threads sleep";
  EXPECT_GE(after_s, 5);
  EXPECT_LE(after_s, 6);
  EXPECT_NE(said_.find("waits in its loader for worker 0, process "), std::string::npos) << said_;
}

TEST_F(WaitsForAWorker, ThatSleeps) {
  const pid_t worker = testing::start_child([] { return ::usleep(60'000'000); });
  EXPECT_EQ(speaks_after(static_cast<uint32_t>(worker)), 0);
  ::kill(worker, SIGKILL), testing::wait_for(worker);
}

// A stack is asked by a signal, which ends such a sleep; Python sleeps until a moment and goes on.
TEST(SleepsForATime, IsTheSleepThatASignalCutsShort) {
  const auto is = [](auto body) {
    const pid_t child = testing::start_child(body);
    for (int i = 0; i < 200 && glance_at(child, 0, 0)->state != 'S'; ++i) ::usleep(10'000);
    ::usleep(20'000);
    const bool said = sleeps_for_a_time(child, static_cast<uint32_t>(child));
    ::kill(child, SIGKILL), testing::wait_for(child);
    return said;
  };
  if (!std::ifstream("/proc/self/syscall").good()) GTEST_SKIP() << "the kernel does not tell system calls";
  EXPECT_TRUE(is([] { return ::usleep(60'000'000); }));
  EXPECT_TRUE(is([] { return static_cast<int>(::sleep(60)); }));
  EXPECT_FALSE(is([] {
    timespec until{};
    ::clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += 60;
    return ::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
  }));
  EXPECT_FALSE(is([] { return ::pause(); }));
  EXPECT_FALSE(sleeps_for_a_time(::getpid(), static_cast<uint32_t>(::getpid()))) << "it runs";
}

}  // namespace
}  // namespace stepscope
