// A rank with the fake CUDA driver (recorder/fake_cuda.h) and a sink for its device records, for unit tests of the
// recorder. Needs libfake_cuda.so beside the test (STEPSCOPE_CUDA_LIBRARY is set to it).
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "recorder/cuda_api.h"
#include "recorder/fake_cuda.h"
#include "recorder/gpu_state.h"
#include "recorder/nccl_plugin.h"

namespace stepscope::recorder {

inline std::mutex g_sink_mutex;
inline std::vector<blackbox::Record> g_sink_records;

class FakeGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    ::setenv("STEPSCOPE_CUDA_LIBRARY", SS_BINARY_DIR "/src/recorder/libfake_cuda.so", 1);
    fake_cuda_reset();
    inject_cuda_api(nullptr);
    g_sink_records.clear();
    gpu_set_sink_for_test([](const blackbox::Record& record) {
      const std::lock_guard lock(g_sink_mutex);
      g_sink_records.push_back(record);
    });
    nccl::Plugin::reset_for_test();
  }
  void TearDown() override {
    gpu_stop("test ends", 0);
    ASSERT_TRUE(eventually([] { return g_gpu.finished.load(); }));
    EXPECT_EQ(fake_cuda_counts().waits, 0u);
    EXPECT_EQ(fake_cuda_counts().implicit_contexts, 0u);
    EXPECT_EQ(fake_cuda_counts().broken_captures, 0u);
    EXPECT_EQ(fake_cuda_counts().recorded_in_capture, 0u);
    gpu_reset_for_test();
    gpu_set_sink_for_test(nullptr);
    fake_cuda_context(nullptr);
    for (const char* name : {"STEPSCOPE_GPU", "STEPSCOPE_NCCL", "STEPSCOPE_NCCL_KERNEL_CLOCK", "STEPSCOPE_NCCL_WINDOW",
                             "STEPSCOPE_NCCL_CHAIN", "CUDA_DEVICE_MAX_CONNECTIONS", "FAKE_OTHER_MASK"})
      ::unsetenv(name);
  }

  bool start() {
    fake_cuda_context(reinterpret_cast<void*>(0xc0));
    return gpu_arm() && gpu_try_start();
  }

  template <class F>
  static bool eventually(F&& condition, int limit_ms = 5000) {
    for (int i = 0; i < limit_ms; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return condition();
  }

  static std::vector<blackbox::Record> records(Kind kind) {
    const std::lock_guard lock(g_sink_mutex);
    std::vector<blackbox::Record> found;
    for (const auto& r : g_sink_records)
      if (kind_of(r.kind) == kind) found.push_back(r);
    return found;
  }
  static bool wait_for(Kind kind, size_t count) {
    return eventually([&] { return records(kind).size() >= count; });
  }
};

}  // namespace stepscope::recorder
