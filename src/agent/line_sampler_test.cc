// The process is its own rank: it answers by a signal handler as the recorder's does.
#include "agent/line_sampler.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/syscall.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <ctime>
#include <thread>

#include "agent/phase_track.h"
#include "written_rings.h"

namespace stepscope {
namespace {

constexpr uint64_t kMs = 1'000'000;

blackbox::StackBox* g_box = nullptr;
std::atomic<uint64_t> g_now_ns = 0;
uint64_t g_pc = 0;
long g_trains = 0;
std::atomic<int> g_asked = 0;

void answer(int, siginfo_t* info, void*) {
  const auto request = static_cast<uint32_t>(info->si_value.sival_int) & 0xffff;
  const bool trains = ::syscall(SYS_gettid) == g_trains;
  const std::string_view text =
      trains ? "171 get /usr/lib/python3.11/queue.py\n12 loop /x/train.py\n" : "7 crunch /x/data.py\n";
  std::memcpy(g_box->text, text.data(), text.size());
  g_box->time_ns = g_now_ns.load();
  g_box->pc = g_pc;
  g_box->flags = trains ? 0 : static_cast<uint32_t>(blackbox::kStackHoldsGil);
  g_box->frames = trains ? 2 : 1;
  g_box->text_bytes = static_cast<uint32_t>(text.size());
  g_box->answered = 2 * request + 2;
  ++g_asked;
}

class LineSamplerTest : public PipelineTest {
 protected:
  void SetUp() override {
    PipelineTest::SetUp();
    signal_ = SIGRTMIN + 9;
    struct sigaction action{};
    action.sa_sigaction = answer;
    action.sa_flags = SA_SIGINFO;
    ::sigaction(signal_, &action, nullptr);
    writer_ = std::make_unique<Writer>(root_, 0, ::getpid(), 0, 4096, 1);
    g_trains = ::syscall(SYS_gettid);
    g_pc = 0;
    writer_->thread = static_cast<uint32_t>(g_trains);
    writer_->header().stack.signal = static_cast<uint32_t>(signal_);
    writer_->header().stack.ready[0] = static_cast<uint32_t>(g_trains);
    g_box = &writer_->header().stack;
    g_asked = 0;
    pipeline_ = std::make_unique<Pipeline>(EngineOptions{});
    id_ = pipeline_->add(writer_->tail());
  }
  void TearDown() override {
    ::signal(signal_, SIG_DFL);
    PipelineTest::TearDown();
  }
  // Steps of 30 ms compute and a gap of `gap_ms` behind them, in whose middle the agent looks.
  void steps(int count, uint64_t gap_ms, LineSampler& sampler, bool quiet = false) {
    for (int i = 0; i < count; ++i) {
      writer_->busy_step();
      g_now_ns = writer_->now() + gap_ms * kMs / 2;
      pipeline_->pump(g_now_ns);
      sampler.look(*pipeline_, g_now_ns, quiet);
      writer_->skip(gap_ms * kMs);
    }
  }

  int signal_ = 0;
  std::unique_ptr<Writer> writer_;
  std::unique_ptr<Pipeline> pipeline_;
  Pipeline::TailId id_{};
};

TEST_F(LineSamplerTest, TheGapsLineIsFoundAndCarriedIntoTheFinding) {
  LineSampler sampler(true);
  steps(60, 50, sampler);
  const auto said = of_kind(pipeline_->snapshot(), FindingKind::kWaitHeavy);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_NE(said[0].title.find("; 100 % of it at train.py:12 loop (python3.11/queue.py:171 get)"), std::string::npos)
      << said[0].title;
  EXPECT_GT(g_asked, 8);
}

TEST_F(LineSamplerTest, QuestionsAreFewAndEndWhenTheLineIsKnown) {
  LineSampler sampler(true);
  steps(100, 50, sampler);  // 8 s
  EXPECT_LE(g_asked, 27);   // a thousandth of it, at 0.3 ms each
  EXPECT_GE(g_asked, 20);
  steps(600, 50, sampler);
  EXPECT_LE(g_asked, static_cast<int>(LineSampler::kEnough) + 2);
  EXPECT_GE(g_asked, static_cast<int>(LineSampler::kEnough));
}

// The training thread is met in libc without the GIL, another thread is busy: it is asked, too.
TEST_F(LineSamplerTest, TheBusyThreadIsAskedWhetherItHoldsTheGil) {
  g_pc = reinterpret_cast<uint64_t>(::dlsym(RTLD_DEFAULT, "gnu_get_libc_version"));
  std::atomic<bool> over = false;
  std::thread busy([&] {
    writer_->header().stack.ready[1] = static_cast<uint32_t>(::gettid());
    while (!over) {}
  });
  clockid_t busy_clock{};
  ASSERT_EQ(::pthread_getcpuclockid(busy.native_handle(), &busy_clock), 0);
  const auto used_ms = [&] {
    timespec used{};
    ::clock_gettime(busy_clock, &used);
    return used.tv_sec * 1000 + used.tv_nsec / 1'000'000;
  };
  LineSampler sampler(true);
  writer_->header().process_start_ns = 1;
  writer_->skip(100'000 * kMs);  // old enough for many questions
  std::optional<Evidence> holder;
  for (int i = 0; i < 250 && !holder; ++i) {
    steps(1, 50, sampler);
    const auto before_ms = used_ms();  // a whole core's worth of the step's 80 ms, however long it takes to get one
    while (used_ms() < before_ms + 80) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    for (const Finding& f : of_kind(pipeline_->snapshot(), FindingKind::kWaitHeavy))
      for (const Evidence& e : f.evidence)
        if (e.name == "gil_holder_share") holder = e;
  }
  over = true;
  busy.join();
  ASSERT_TRUE(holder);
  EXPECT_EQ(holder->text, "data.py:7 crunch");
  EXPECT_DOUBLE_EQ(*holder->value, 1);
}

// Its signal would be handled on a stack that may be somebody's data.
TEST_F(LineSamplerTest, AThreadWithoutAStackForSignalsIsNeverAsked) {
  writer_->header().stack.ready[0] = 0;
  LineSampler sampler(true);
  steps(200, 50, sampler);
  EXPECT_EQ(g_asked, 0);
}

TEST_F(LineSamplerTest, AHealthyRankIsNeverAsked) {
  LineSampler sampler(true);
  steps(100, 1, sampler);
  EXPECT_EQ(g_asked, 0);
  EXPECT_EQ(sampler.account(), "nobody was asked");
  EXPECT_FALSE(pipeline_->ring(id_)->phases().open());
}

TEST_F(LineSamplerTest, NobodyIsAskedWhereItIsOffOrSomebodyElseAsks) {
  LineSampler off(false), quiet(true);
  steps(40, 50, off);
  steps(40, 50, quiet, true);
  EXPECT_EQ(g_asked, 0);
  EXPECT_EQ(quiet.wait_ms(g_now_ns, 100), 100);
}

TEST_F(LineSamplerTest, WhereNoAnswerLiesInTheTimeInQuestionTheQuestionsEnd) {
  LineSampler sampler(true);
  for (int i = 0; i < 1200; ++i) {  // met in the optimizer only
    writer_->busy_step();
    g_now_ns = writer_->now() - 1 * kMs;
    pipeline_->pump(writer_->now());
    sampler.look(*pipeline_, writer_->now(), false);
    writer_->skip(50 * kMs);
  }
  EXPECT_GE(g_asked, LineSampler::kHopeless);
  EXPECT_LE(g_asked, LineSampler::kHopeless + 1);
}

TEST_F(LineSamplerTest, WhoIsLeavingIsNotAsked) {
  writer_->header().life = blackbox::kLifeTeardown;
  LineSampler sampler(true);
  steps(40, 50, sampler);
  EXPECT_EQ(g_asked, 0);
}

TEST(PhaseTrackTest, AStayIsKnownWhenTheRecordsAreBeyondIt) {
  PhaseTrack track;
  track.note(10, {Category::kForward, false});
  track.note(20, {Category::kForward, false});
  EXPECT_FALSE(track.passed(15));
  track.note(30, {Category::kBackward, true});
  ASSERT_TRUE(track.passed(15));
  EXPECT_EQ(track.stay_at(15)->in, (PhaseNow{Category::kForward, false}));
  EXPECT_EQ(track.stay_at(15)->begin_ns, 10);
  EXPECT_EQ(track.stay_at(15)->end_ns, 30);
  EXPECT_FALSE(track.stay_at(5));   // before it was kept
  EXPECT_FALSE(track.stay_at(30));  // still lasts
  track.note(40, {Category::kOptimizer, false});
  track.forget_before(35);
  EXPECT_EQ(track.stay_at(35)->in.phase, Category::kBackward);
  EXPECT_FALSE(track.stay_at(15));
  track.close();
  EXPECT_FALSE(track.open());
}

}  // namespace
}  // namespace stepscope
