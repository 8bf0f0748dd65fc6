// The plugin as NCCL has it: a shared object of its own that is opened, closed and opened again, with a real black box.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <thread>

#include "blackbox/ring_reader.h"
#include "recorder/fake_cuda.h"
#include "recorder/fake_nccl.h"
#include "scratch_folder.h"
#include "stepscope/stepscope.h"

namespace stepscope::recorder {
namespace {

constexpr char kPlugin[] = SS_BINARY_DIR "/src/recorder/libfake_plugin.so";
void* const kStream = reinterpret_cast<void*>(0x77);

class NcclModule : public ::testing::Test {
 protected:
  template <class F>
  static F* function(const char* name) {
    static void* library = ::dlopen(kPlugin, RTLD_NOW | RTLD_LOCAL);
    return reinterpret_cast<F*>(::dlsym(library, name));
  }
  std::vector<blackbox::Record> records() {
    std::vector<blackbox::Record> found;
    for (const auto& file : std::filesystem::directory_iterator(folder_.path())) {
      auto reader = blackbox::RingReader::open(file.path());
      if (reader) reader->read(found, 100'000, 1, true);
    }
    return found;
  }
  size_t count(Kind kind) {
    size_t n = 0;
    for (const auto& r : records()) n += kind_of(r.kind) == kind;
    return n;
  }
  testing::ScratchFolder folder_{"/dev/shm"};
};

TEST_F(NcclModule, ExportsTheInterfacesAndStaysLoaded) {
  void* library = ::dlopen(kPlugin, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << ::dlerror();
  for (const char* name : {"ncclProfiler_v3", "ncclProfiler_v4", "ncclProfiler_v5", "ncclProfiler_v6"})
    EXPECT_NE(::dlsym(library, name), nullptr) << name;
  EXPECT_EQ(::dlsym(library, "ncclProfiler_v2"), nullptr);
  // -z nodelete: a thread of ours may still run when NCCL closes it.
  ::dlclose(library);
  EXPECT_NE(::dlopen(kPlugin, RTLD_NOW | RTLD_NOLOAD), nullptr);
}

TEST_F(NcclModule, SurvivesBeingClosedAndOpenedAgainWithOneBlackBox) {
  ::setenv("STEPSCOPE_CUDA_LIBRARY", SS_BINARY_DIR "/src/recorder/libfake_cuda.so", 1);
  ::setenv("STEPSCOPE_SHM", folder_.path().c_str(), 1);
  fake_cuda_reset();
  fake_cuda_context(reinterpret_cast<void*>(0xc0));
  ASSERT_EQ(function<int(const stepscope_identity*)>("stepscope_open")(nullptr), 0);
  ASSERT_EQ(function<int()>("fake_plugin_start")(), 1);
  for (uint64_t life = 1; life <= 3; ++life) {
    FakeNccl nccl(5);
    ASSERT_TRUE(nccl.load(kPlugin)) << nccl.error();
    auto* comm = nccl.comm_init(life, 0, 2, "dp");
    for (int i = 0; i < 10; ++i)
      nccl.run(comm, {{.func = "AllReduce"}}, kStream, false, [](void* s) { fake_cuda_work(s, 200'000); });
    nccl.comm_finalize(comm);
    nccl.unload();  // with work still on the device: its times arrive all the same
    EXPECT_EQ(nccl.failures(), 0);
  }
  EXPECT_EQ(function<int(int, int, uint64_t, void*)>("fake_plugin_mark")(4, 2, 9, kStream), 1);
  for (int i = 0; i < 2000 && (count(Kind::kNcclTime) < 30 || count(Kind::kGpuMark) < 1); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_EQ(count(Kind::kNcclOp), 30u);
  EXPECT_EQ(count(Kind::kNcclEnqueue), 30u);
  EXPECT_EQ(count(Kind::kNcclTime), 30u);
  EXPECT_EQ(count(Kind::kNcclComm), 6u);
  EXPECT_EQ(count(Kind::kGpuMark), 1u);
  std::set<uint64_t> hashes;
  for (const auto& r : records())
    if (kind_of(r.kind) == Kind::kNcclTime) hashes.insert(r.a);
  EXPECT_EQ(hashes, (std::set<uint64_t>{1, 2, 3}));
  function<void()>("stepscope_close")();
  // Without a black box the poller has nothing to do and ends by itself.
  for (int i = 0; i < 2000 && function<int()>("fake_plugin_state")() != 4; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(function<int()>("fake_plugin_state")(), 4);  // stopped
  function<void()>("fake_plugin_stop")();
  // After our end NCCL is still served, with nothing.
  FakeNccl late(5);
  ASSERT_TRUE(late.load(kPlugin));
  auto* comm = late.comm_init(9, 0, 2);
  late.run(comm, {{.func = "AllReduce"}}, kStream);
  late.comm_finalize(comm);
  EXPECT_EQ(late.failures(), 0);
  EXPECT_EQ(count(Kind::kNcclOp), 30u);
  fake_cuda_context(nullptr);
  ::unsetenv("STEPSCOPE_CUDA_LIBRARY");
  ::unsetenv("STEPSCOPE_SHM");
}

}  // namespace
}  // namespace stepscope::recorder
