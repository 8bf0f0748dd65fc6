#include <gtest/gtest.h>

#include "fake_nccl_job.h"

namespace stepscope::recorder {
namespace {

const char* no_env(const char*) { return nullptr; }
constexpr uint64_t kEnoughShm = 1ull << 30;

TEST(NcclMode, FollowsVersionAndEnvironment) {
  EXPECT_EQ(choose_mode(5, 22809, kEnoughShm, no_env).mode, Mode::kEvents);
  EXPECT_FALSE(choose_mode(5, 22809, kEnoughShm, no_env).kernel_clock);  // own events need none
  EXPECT_EQ(choose_mode(4, 22707, kEnoughShm, no_env).mode, Mode::kHost);
  EXPECT_TRUE(choose_mode(4, 22707, kEnoughShm, no_env).kernel_clock);
  EXPECT_FALSE(choose_mode(4, 22707, 1 << 20, no_env).kernel_clock);     // a 64 MiB /dev/shm that is nearly full
  EXPECT_FALSE(choose_mode(4, 22703, kEnoughShm, no_env).kernel_clock);  // older than what works
  EXPECT_FALSE(choose_mode(4, 0, kEnoughShm, no_env).kernel_clock);      // unknown version
  const auto one_queue = [](const char* name) -> const char* {
    return std::string_view(name) == "CUDA_DEVICE_MAX_CONNECTIONS" ? "1" : nullptr;
  };
  EXPECT_EQ(choose_mode(5, 22809, kEnoughShm, one_queue).mode, Mode::kEndEvents);
  EXPECT_TRUE(choose_mode(5, 22809, kEnoughShm, one_queue).kernel_clock);
  EXPECT_FALSE(choose_mode(6, 23102, kEnoughShm, one_queue).kernel_clock);  // 2.31 makes it dear
  const auto off = [](const char* name) -> const char* {
    return std::string_view(name) == "STEPSCOPE_NCCL" ? "off" : nullptr;
  };
  EXPECT_EQ(choose_mode(5, 22809, kEnoughShm, off).mode, Mode::kOff);
  EXPECT_EQ(choose_mode(5, 22809, kEnoughShm, no_env).timed_every, kTimedEvery);
  EXPECT_EQ(choose_mode(5, 22809, kEnoughShm, one_queue).timed_every, kTimedEvery);
  const auto asked = [](const char* name) { return std::string(name) == "STEPSCOPE_NCCL" ? "events" : nullptr; };
  EXPECT_EQ(choose_mode(5, 22809, kEnoughShm, asked).timed_every, 1u);
  const auto window = [](const char* name) -> const char* {
    return std::string_view(name) == "STEPSCOPE_NCCL_WINDOW" ? "3/100" : nullptr;
  };
  EXPECT_EQ(choose_mode(4, 22707, kEnoughShm, window).window_steps, 3u);
  EXPECT_EQ(choose_mode(4, 22707, kEnoughShm, window).window_period, 100u);
}

TEST(NcclMode, AsksForNoMoreThanItNeeds) {
  EXPECT_EQ(mask_of(Mode::kOff, 5, true), 0);
  EXPECT_EQ(mask_of(Mode::kHost, 4, false), static_cast<int>(kGroup | kColl | kP2p));
  for (const int api : {3, 4, 5, 6})
    for (const Mode mode : {Mode::kHost, Mode::kEndEvents, Mode::kEvents}) {
      EXPECT_EQ(static_cast<uint64_t>(mask_of(mode, api, false)) & (kProxyOp | kProxyStep | kKernelCh | kNetPlugin),
                0u);
      EXPECT_NE(static_cast<uint64_t>(mask_of(mode, api, true)) & kKernelCh, 0u);
    }
}

}  // namespace
}  // namespace stepscope::recorder
