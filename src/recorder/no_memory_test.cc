// A training that is out of memory must not be ended by us: whichever allocation fails, what may not throw does not.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "fake_nccl_job.h"
#include "recorder/recorder.h"
#include "scratch_folder.h"

#pragma GCC diagnostic ignored "-Wmismatched-new-delete"  // all of them are malloc and free

namespace {
constinit thread_local int t_left = -1;  // allocations of this thread that still succeed; -1 = all

void* allocate(std::size_t bytes) noexcept {
  if (t_left == 0) return nullptr;
  if (t_left > 0) --t_left;
  return std::malloc(bytes ? bytes : 1);
}
}  // namespace

void* operator new(std::size_t bytes) {
  if (void* p = allocate(bytes)) return p;
  throw std::bad_alloc();
}
void* operator new[](std::size_t bytes) { return operator new(bytes); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }

namespace stepscope::recorder {
namespace {

constexpr int kMost = 60;  // more allocations than any of these functions makes

template <class Body>
auto with_only(int allocations, Body body) {
  t_left = allocations;
  auto result = body();
  t_left = -1;
  return result;
}

TEST(NoMemory, OpeningABlackBox) {
  testing::ScratchFolder folder;
  ::setenv("STEPSCOPE_SHM", folder.path().c_str(), 1);
  ::setenv("STEPSCOPE_RUN_DIR", folder.path().c_str(), 1);
  int opened = 0;
  for (int i = 0; i < kMost; ++i) {
    close();
    opened += with_only(i, [] {
      const bool on = open();
      adopt_as_worker("/nowhere.ring");
      return on;
    });
  }
  EXPECT_GT(opened, 0);
  EXPECT_LT(opened, kMost) << "nothing failed: the test tests nothing";
  discard();
  ::unsetenv("STEPSCOPE_SHM");
  ::unsetenv("STEPSCOPE_RUN_DIR");
}

class NoMemoryOnGpu : public NcclPlugin {};

TEST_F(NoMemoryOnGpu, StartingTheTimeline) {
  fake_cuda_context(reinterpret_cast<void*>(0xc0));
  ASSERT_TRUE(gpu_arm());
  ::setenv("STEPSCOPE_CUDA_LIBRARY", "/a/path/that/is/longer/than/any/string/keeps/within/itself.so", 1);
  for (int i = 0; i < kMost; ++i) EXPECT_FALSE(with_only(i, gpu_try_start));
  ::setenv("STEPSCOPE_CUDA_LIBRARY", SS_BINARY_DIR "/src/recorder/libfake_cuda.so", 1);
  fake_cuda_context(nullptr);
  for (int i = 0; i < kMost; ++i) EXPECT_FALSE(with_only(i, gpu_try_start));
  fake_cuda_context(reinterpret_cast<void*>(0xc0));
  EXPECT_TRUE(gpu_try_start()) << "it does not start when there is memory again";
}

TEST_F(NoMemoryOnGpu, CommunicatorsOfNccl) {
  gpu_set_sink_for_test([](const blackbox::Record&) {});
  ::setenv("STEPSCOPE_NCCL_CHAIN", "a-plugin-that-does-not-exist-anywhere", 1);
  int joined = 0;
  for (int i = 0; i < kMost; ++i) {
    nccl::Plugin::reset_for_test();
    void* context = nullptr;
    int mask = 0;
    EXPECT_EQ(with_only(i, [&] { return ncclProfiler_v5.init(&context, kHash, &mask, "dp", 1, 4, 0, nullptr); }), 0);
    joined += context != nullptr;
    if (!context) {
      EXPECT_EQ(mask, 0);
    }
  }
  EXPECT_GT(joined, 0);
  EXPECT_LT(joined, kMost);
  nccl::Plugin::reset_for_test();
}

}  // namespace
}  // namespace stepscope::recorder
