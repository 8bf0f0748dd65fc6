#include "recorder/gpu_timeline.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <limits>

#include "fake_gpu.h"
#include "recorder/gpu_poller.h"

namespace stepscope::recorder {
namespace {

constexpr int64_t kMs = 1'000'000;
void* const kStream = reinterpret_cast<void*>(0x1);
void* const kOther = reinterpret_cast<void*>(0x2);

class GpuTimeline : public FakeGpu {};

double gpu_ms(const blackbox::Record& from, const blackbox::Record& to) {
  return static_cast<double>(static_cast<int64_t>(to.d - from.d)) * 1e-6;
}

TEST(CudaApi, NamesTheFirstMissingSymbol) {
  CudaApi api{};
  std::string reason;
  void* no_cuda = ::dlopen("libm.so.6", RTLD_NOW);
  ASSERT_NE(no_cuda, nullptr);
  EXPECT_FALSE(load_cuda_api(no_cuda, api, reason));
  EXPECT_EQ(reason, "libcuda has no cuEventCreate");
}

TEST_F(GpuTimeline, StaysOffWithoutALibrary) {
  ::unsetenv("STEPSCOPE_CUDA_LIBRARY");
  fake_cuda_context(reinterpret_cast<void*>(0xc0));
  ASSERT_TRUE(gpu_arm());
  EXPECT_FALSE(gpu_try_start());
  EXPECT_EQ(gpu_state(), GpuState::kArmed);
  EXPECT_STREQ(gpu_reason(), "libcuda.so.1 is not loaded in this process");
  EXPECT_FALSE(gpu_mark(Kind::kForward, Edge::kBegin, 1, kStream));
}

TEST_F(GpuTimeline, WaitsForAContextAndThenStarts) {
  ASSERT_TRUE(gpu_arm());
  EXPECT_FALSE(gpu_try_start());
  EXPECT_STREQ(gpu_reason(), "no CUDA context on this thread");
  EXPECT_EQ(fake_cuda_counts().created, 0u);
  EXPECT_TRUE(start());
  EXPECT_EQ(gpu_device(), 0);
  EXPECT_EQ(fake_cuda_counts().created, kGpuSlotsMarks);
}

TEST_F(GpuTimeline, KillSwitchKeepsItOff) {
  ::setenv("STEPSCOPE_GPU", "0", 1);
  EXPECT_FALSE(start());
  EXPECT_STREQ(gpu_reason(), "switched off by STEPSCOPE_GPU");
}

TEST_F(GpuTimeline, DoesNotStartInTheMiddleOfACapture) {
  fake_cuda_capture(kStream, 1);
  EXPECT_FALSE(start());
  EXPECT_EQ(gpu_state(), GpuState::kArmed);
  fake_cuda_capture(kStream, 0);
  EXPECT_TRUE(start());
}

TEST_F(GpuTimeline, MeasuresAPhaseOnTheGpuClock) {
  ASSERT_TRUE(start());
  fake_cuda_work(kStream, 2 * kMs);
  const uint64_t host = monotonic_ns();
  ASSERT_TRUE(gpu_mark(Kind::kForward, Edge::kBegin, 7, kStream, host));
  fake_cuda_work(kStream, 30 * kMs);
  ASSERT_TRUE(gpu_mark(Kind::kForward, Edge::kEnd, 7, kStream));
  ASSERT_TRUE(wait_for(Kind::kGpuMark, 2));
  const auto marks = records(Kind::kGpuMark);
  EXPECT_EQ(marks[0].time_ns, host);
  EXPECT_EQ(marks[0].a, pack_kind(Kind::kForward, Edge::kBegin));
  EXPECT_EQ(marks[0].b, 7u);
  EXPECT_NEAR(gpu_ms(marks[0], marks[1]), 30.0, 0.002);
  EXPECT_NEAR(static_cast<double>(marks[1].c - marks[0].c) * 1e-6, 30.0, 0.01);
  // On the host's axis: the begin lies 2 ms after it was recorded.
  EXPECT_NEAR(static_cast<double>(marks[0].c - host) * 1e-6, 2.0, 1.0);
}

TEST_F(GpuTimeline, FindsHostTimeOfADriftingClockWithAnOffset) {
  fake_cuda_clock(80, 123'456'789'000);
  ASSERT_TRUE(start());
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));  // two calibrations
  for (int i = 0; i < 5; ++i) {
    fake_cuda_work(kStream, 1 * kMs);
    gpu_mark(Kind::kBackward, Edge::kEnd, static_cast<uint64_t>(i), kStream);
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
  }
  ASSERT_TRUE(wait_for(Kind::kGpuMark, 5));
  int near = 0;
  for (const auto& m : records(Kind::kGpuMark))
    near += std::fabs(static_cast<double>(m.c - m.time_ns) * 1e-6 - 1.0) < 0.25;
  EXPECT_GE(near, 4);  // one may be off on a busy machine: time passes between the work and the mark
}

TEST_F(GpuTimeline, TellsAHostBoundMarkFromABusyStream) {
  ASSERT_TRUE(start());
  ASSERT_TRUE(eventually([] { return gpu_counts().bracket_ns > 0; }));
  // An idle stream reaches it at once; one of ten may be late when this thread lost the CPU in between.
  for (int i = 0; i < 10; ++i) gpu_mark(Kind::kForward, Edge::kEnd, 1, kStream);
  fake_cuda_work(kStream, 20 * kMs);
  gpu_mark(Kind::kForward, Edge::kEnd, 2, kStream);
  ASSERT_TRUE(wait_for(Kind::kGpuMark, 11));
  const auto marks = records(Kind::kGpuMark);
  int dry = 0;
  for (int i = 0; i < 10; ++i) dry += (marks[static_cast<size_t>(i)].flags & kGpuHostBound) != 0;
  EXPECT_GE(dry, 1);
  EXPECT_EQ(marks[10].flags & kGpuHostBound, 0);
}

TEST_F(GpuTimeline, ABlockedStreamDoesNotHoldBackAnother) {
  ASSERT_TRUE(start());
  fake_cuda_work(kStream, 400 * kMs);
  gpu_mark(Kind::kForward, Edge::kEnd, 1, kStream);
  gpu_mark(Kind::kForward, Edge::kEnd, 2, kOther);
  ASSERT_TRUE(wait_for(Kind::kGpuMark, 1));
  EXPECT_EQ(records(Kind::kGpuMark)[0].b, 2u);
  ASSERT_TRUE(wait_for(Kind::kGpuMark, 2));
  EXPECT_EQ(records(Kind::kGpuMark)[1].b, 1u);
}

TEST_F(GpuTimeline, RecordsNothingUnderCaptureAndSaysSo) {
  ASSERT_TRUE(start());
  fake_cuda_capture(kStream, 1);
  EXPECT_FALSE(gpu_mark(Kind::kForward, Edge::kBegin, 1, kStream));
  EXPECT_FALSE(gpu_mark(Kind::kForward, Edge::kBegin, 2, nullptr));  // the legacy stream would break the capture
  EXPECT_TRUE(gpu_mark(Kind::kForward, Edge::kBegin, 3, kOther));    // another stream goes on
  std::this_thread::sleep_for(std::chrono::milliseconds(30));        // the poller queries meanwhile
  fake_cuda_capture(kStream, 0);
  ASSERT_TRUE(wait_for(Kind::kGpuMark, 3));
  int captured = 0;
  for (const auto& m : records(Kind::kGpuMark)) {
    if (!(m.flags & kGpuCaptured)) continue;
    ++captured;
    EXPECT_EQ(m.c, 0u);
    EXPECT_EQ(m.d, 0u);
  }
  EXPECT_EQ(captured, 2);
  EXPECT_EQ(gpu_counts().captured, 2u);
}

TEST_F(GpuTimeline, AFullPoolCountsAndDoesNotBlock) {
  ASSERT_TRUE(start());
  ASSERT_TRUE(eventually([] { return gpu_counts().bracket_ns > 0; }));
  fake_cuda_work(kStream, 300 * kMs);
  uint64_t made = 0;
  for (uint32_t i = 0; i < kGpuSlotsMarks + 100; ++i) made += gpu_mark(Kind::kForward, Edge::kBegin, i, kStream);
  EXPECT_GE(gpu_counts().missing, 100u);
  EXPECT_LE(made, kGpuSlotsMarks);
  ASSERT_TRUE(eventually([&] { return gpu_counts().resolved == made; }));
  // All slots came back.
  fake_cuda_work(kStream, 50 * kMs);
  uint64_t again = 0;
  for (uint32_t i = 0; i < made; ++i) again += gpu_mark(Kind::kForward, Edge::kEnd, i, kStream);
  EXPECT_EQ(again, made);
  ASSERT_TRUE(eventually([&] { return gpu_counts().resolved == 2 * made; }));
  const auto status = records(Kind::kGpuStatus);
  ASSERT_FALSE(status.empty());
  EXPECT_TRUE(eventually([] { return records(Kind::kGpuStatus).back().b >= 100; }));
}

TEST_F(GpuTimeline, StopsItselfAfterTooManyErrors) {
  ASSERT_TRUE(start());
  ASSERT_TRUE(eventually([] { return gpu_counts().bracket_ns > 0; }));
  fake_cuda_fail("cuEventQuery", 700, -1);
  for (int i = 0; i < 40; ++i) gpu_mark(Kind::kForward, Edge::kBegin, 1, kStream);
  ASSERT_TRUE(eventually([] { return gpu_state() == GpuState::kStopped; }));
  EXPECT_STREQ(gpu_reason(), "too many errors of the CUDA driver");
  EXPECT_EQ(gpu_counts().last_error, 700);
  EXPECT_FALSE(gpu_mark(Kind::kForward, Edge::kBegin, 1, kStream));
  ASSERT_FALSE(records(Kind::kGpuStatus).empty());
  EXPECT_EQ(records(Kind::kGpuStatus).back().c >> 32, 700u);
}

TEST_F(GpuTimeline, AFewErrorsAreSurvived) {
  ASSERT_TRUE(start());
  ASSERT_TRUE(eventually([] { return gpu_counts().bracket_ns > 0; }));
  fake_cuda_fail("cuEventRecord", 999, 3);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(gpu_mark(Kind::kForward, Edge::kBegin, 1, kStream));
  EXPECT_TRUE(gpu_mark(Kind::kForward, Edge::kBegin, 2, kStream));
  ASSERT_TRUE(wait_for(Kind::kGpuMark, 1));
  EXPECT_EQ(gpu_counts().errors, 3u);
}

TEST_F(GpuTimeline, DriverShutdownEndsThePollerAtOnce) {
  ASSERT_TRUE(start());
  ASSERT_TRUE(eventually([] { return gpu_counts().bracket_ns > 0; }));
  fake_cuda_fail("cuEventQuery", kCuDeinitialized, -1);
  gpu_mark(Kind::kForward, Edge::kBegin, 1, kStream);
  ASSERT_TRUE(eventually([] { return g_gpu.finished.load(); }));
  EXPECT_STREQ(gpu_reason(), "the CUDA driver shut down");
}

TEST_F(GpuTimeline, AThreadOfAnotherDeviceIsNoError) {
  ASSERT_TRUE(start());
  for (int code : {kCuInvalidContext, kCuInvalidHandle}) {
    fake_cuda_fail("cuEventRecord", code, -1);  // a number of failures would be shared with the poller
    for (int i = 0; i < 20; ++i) EXPECT_FALSE(gpu_mark(Kind::kForward, Edge::kBegin, 1, kStream));
  }
  fake_cuda_fail("cuEventRecord", 0, 0);
  EXPECT_TRUE(eventually([] { return gpu_mark(Kind::kForward, Edge::kBegin, 2, kStream); }));
  EXPECT_TRUE(gpu_running());
  EXPECT_EQ(gpu_counts().missing, 40u);
}

TEST_F(GpuTimeline, GivesUpItsOwnStreamWhenItIsNeverReached) {
  // All streams share one queue that is far behind: the fake's next streams are busy for an hour.
  for (uintptr_t s = 0x5000; s < 0x6000; s += 16) fake_cuda_work(reinterpret_cast<void*>(s), 3'600'000 * kMs);
  ASSERT_TRUE(start());
  gpu_mark(Kind::kForward, Edge::kBegin, 1, kStream);
  fake_cuda_work(kStream, 5 * kMs);
  gpu_mark(Kind::kForward, Edge::kEnd, 1, kStream);
  ASSERT_TRUE(wait_for(Kind::kGpuMark, 2));
  EXPECT_NEAR(gpu_ms(records(Kind::kGpuMark)[0], records(Kind::kGpuMark)[1]), 5.0, 0.5);
}

TEST_F(GpuTimeline, WorksWithoutAStreamOfItsOwn) {
  fake_cuda_fail("cuStreamCreate", 2, -1);
  ASSERT_TRUE(start());
  gpu_mark(Kind::kForward, Edge::kBegin, 1, kStream);
  fake_cuda_work(kStream, 10 * kMs);
  gpu_mark(Kind::kForward, Edge::kEnd, 1, kStream);
  ASSERT_TRUE(wait_for(Kind::kGpuMark, 2));
  EXPECT_NEAR(gpu_ms(records(Kind::kGpuMark)[0], records(Kind::kGpuMark)[1]), 10.0, 0.5);
}

TEST_F(GpuTimeline, StopResolvesWhatIsFinished) {
  ASSERT_TRUE(start());
  ASSERT_TRUE(eventually([] { return gpu_counts().bracket_ns > 0; }));
  fake_cuda_work(kStream, 10 * kMs);
  gpu_mark(Kind::kOptimizer, Edge::kEnd, 1, kStream);
  gpu_stop("test", 100);
  EXPECT_EQ(records(Kind::kGpuMark).size(), 1u);
  EXPECT_TRUE(g_gpu.finished.load());
  EXPECT_FALSE(gpu_try_start());  // for good
}

TEST_F(GpuTimeline, AStuckGpuDoesNotHoldUpTheEnd) {
  ASSERT_TRUE(start());
  fake_cuda_work(kStream, 3'600'000 * kMs);
  gpu_mark(Kind::kOptimizer, Edge::kEnd, 1, kStream);
  const uint64_t before = monotonic_ns();
  gpu_stop("test", 20);
  EXPECT_LT(monotonic_ns() - before, 1'000'000'000u);
  EXPECT_TRUE(g_gpu.finished.load());
}

TEST_F(GpuTimeline, AForkedChildIsOff) {
  ASSERT_TRUE(start());
  const pid_t child = ::fork();
  if (child == 0) {
    const bool off = gpu_state() == GpuState::kStopped && !gpu_mark(Kind::kForward, Edge::kBegin, 1, kStream) &&
                     !gpu_try_start() && !gpu_arm();
    gpu_stop("child", 1000);  // returns at once: there is no poller here
    ::_exit(off ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_TRUE(gpu_mark(Kind::kForward, Edge::kBegin, 2, kStream));  // the parent goes on
  EXPECT_TRUE(wait_for(Kind::kGpuMark, 1));
}

TEST_F(GpuTimeline, SeveralThreadsMarkAtOnce) {
  ASSERT_TRUE(start());
  gpu_reserve(kGpuSlots);
  std::vector<std::thread> threads;
  std::atomic<uint64_t> made{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      fake_cuda_context(reinterpret_cast<void*>(0xc0));
      for (int i = 0; i < 1000; ++i)
        made += gpu_mark(Kind::kForward, Edge::kBegin, static_cast<uint64_t>(t), reinterpret_cast<void*>(t + 1));
    });
  for (auto& t : threads) t.join();
  ASSERT_TRUE(eventually([&] { return gpu_counts().resolved == made.load(); }));
  EXPECT_EQ(made.load() + gpu_counts().missing, 4000u);
  EXPECT_EQ(records(Kind::kGpuMark).size(), made.load());
}

TEST_F(GpuTimeline, SpansComeBackWithTheirCookie) {
  static std::atomic<uint64_t> cookie{0}, begin{0}, end{0};
  cookie = begin = end = 0;
  gpu_set_span_handler([](uint64_t c, uint64_t b, uint64_t e) { begin = b, end = e, cookie = c; });
  ASSERT_TRUE(start());
  ASSERT_TRUE(eventually([] { return gpu_counts().bracket_ns > 0; }));
  const uint32_t from = gpu_event(kStream);
  fake_cuda_work(kStream, 5 * kMs);
  gpu_submit_span(from, gpu_event(kStream), kStream, 77);
  ASSERT_TRUE(eventually([] { return cookie.load() == 77; }));
  EXPECT_NEAR(static_cast<double>(end - begin) * 1e-6, 5.0, 0.01);
  // Only the end is known.
  gpu_submit_span(kNoSlot, gpu_event(kStream), kStream, 78);
  ASSERT_TRUE(eventually([] { return cookie.load() == 78; }));
  EXPECT_EQ(begin.load(), 0u);
  EXPECT_GT(end.load(), 0u);
  // No end: the begin goes back to the pool and nobody is told.
  gpu_submit_span(gpu_event(kStream), kNoSlot, kStream, 79);
  gpu_set_span_handler(nullptr);
}

TEST_F(GpuTimeline, TellsANumberWhenTheStreamHasComeToIt) {
  ASSERT_TRUE(start());
  const float loss = std::numeric_limits<float>::quiet_NaN();
  const double norm = 2.5;
  const auto at = [](const auto& number) { return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(&number)); };
  fake_cuda_work(kStream, 20 * kMs);
  const uint64_t host = monotonic_ns();
  ASSERT_TRUE(gpu_scalar(at(loss), ScalarFormat::kFloat, ScalarOf::kLoss, kStream, host));
  ASSERT_TRUE(gpu_scalar(at(norm), ScalarFormat::kDouble, ScalarOf::kGradNorm, kOther, host + 1));
  ASSERT_TRUE(wait_for(Kind::kScalar, 2));
  // The idle stream's comes first, unless the poller lost the CPU meanwhile.
  for (const auto& told : records(Kind::kScalar)) {
    const bool is_loss = told.a == static_cast<uint64_t>(ScalarOf::kLoss);
    EXPECT_EQ(told.c, is_loss ? host : host + 1);
    if (!is_loss) EXPECT_EQ(std::bit_cast<double>(told.b), 2.5);
    if (!is_loss) continue;
    EXPECT_TRUE(std::isnan(std::bit_cast<double>(told.b)));
    EXPECT_GE(told.time_ns, host + 20 * kMs);
  }
  EXPECT_EQ(gpu_counts().errors, 0u);
}

TEST_F(GpuTimeline, ReadsNoNumberInACaptureOrWithoutMemoryForIt) {
  ASSERT_TRUE(start());
  const double norm = 2.5;
  const auto address = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(&norm));
  fake_cuda_capture(kStream, 1);
  EXPECT_FALSE(gpu_scalar(address, ScalarFormat::kDouble, ScalarOf::kLoss, kStream, 1));
  fake_cuda_capture(kStream, 0);
  fake_cuda_fail("cuMemcpyDtoHAsync", kCuInvalidHandle, 1);
  EXPECT_FALSE(gpu_scalar(address, ScalarFormat::kDouble, ScalarOf::kLoss, kStream, 1));
  EXPECT_EQ(gpu_counts().errors, 0u);  // a stream of another device is nobody's fault
  EXPECT_TRUE(gpu_scalar(address, ScalarFormat::kDouble, ScalarOf::kLoss, kStream, 1));
}

}  // namespace
}  // namespace stepscope::recorder
