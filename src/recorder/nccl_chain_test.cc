#include <gtest/gtest.h>
#include <dlfcn.h>

#include "fake_nccl_job.h"

namespace stepscope::recorder {
namespace {

constexpr char kOtherPlugin[] = SS_BINARY_DIR "/src/recorder/libfake_other_plugin.so";
struct OtherCounts {
  uint64_t inits, starts, stops, states, finals, wrong, parents, types;
};
OtherCounts other_counts() {
  void* library = ::dlopen(kOtherPlugin, RTLD_NOW);
  auto* read = reinterpret_cast<void (*)(OtherCounts*)>(::dlsym(library, "fake_other_counts"));
  OtherCounts counts{};
  read(&counts);
  return counts;
}

class NcclChain : public NcclPlugin, public ::testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(Versions, NcclChain, ::testing::Values(4, 5, 6));

TEST_P(NcclChain, TheOtherPluginGetsWhatItAskedForWithItsOwnHandles) {
  ::setenv("STEPSCOPE_NCCL_CHAIN", kOtherPlugin, 1);
  ::setenv("FAKE_OTHER_MASK", std::to_string(kGroup | kColl | kKernelCh).c_str(), 1);
  ASSERT_TRUE(start());
  const OtherCounts before = other_counts();
  FakeNccl nccl = fake(GetParam());
  auto* comm = nccl.comm_init(kHash, 0, 2);
  EXPECT_NE(nccl.mask() & static_cast<int>(kKernelCh), 0);  // on its behalf
  for (int i = 0; i < 10; ++i) {
    nccl.run(comm, {{.func = "AllReduce"}}, kStream, false, kernel_5ms);
    nccl.report_channels(1000, 2000);
  }
  nccl.comm_finalize(comm);
  const OtherCounts after = other_counts();
  EXPECT_EQ(after.inits - before.inits, 1u);
  EXPECT_EQ(after.finals - before.finals, 1u);
  EXPECT_EQ(after.starts - before.starts, 40u);  // per launch a group, an operation and two channels
  EXPECT_EQ(after.stops - before.stops, 40u);
  EXPECT_EQ(after.states - before.states, 20u);
  EXPECT_EQ(after.parents - before.parents, 30u);
  EXPECT_EQ(after.wrong, 0u);
  EXPECT_EQ(after.types, kGroup | kColl | kKernelCh);
  EXPECT_EQ(records(Kind::kNcclOp).size(), 10u);  // and we ours
}

TEST_F(NcclPlugin, TheOtherPluginIsServedAlsoWhenWeAreOff) {
  ::setenv("STEPSCOPE_NCCL_CHAIN", kOtherPlugin, 1);
  ::setenv("STEPSCOPE_NCCL", "off", 1);
  const OtherCounts before = other_counts();
  FakeNccl nccl = fake(5);
  auto* comm = nccl.comm_init(kHash, 0, 2);
  nccl.run(comm, {{.func = "AllReduce"}, {.func = "AllReduce"}}, kStream);
  nccl.comm_finalize(comm);
  const OtherCounts after = other_counts();
  EXPECT_EQ(after.starts - before.starts, 3u);
  EXPECT_EQ(after.stops - before.stops, 3u);
  EXPECT_EQ(after.wrong, 0u);
  EXPECT_TRUE(records(Kind::kNcclOp).empty());
}

TEST_F(NcclPlugin, AMissingOtherPluginHarmsNobody) {
  ::setenv("STEPSCOPE_NCCL_CHAIN", "/nowhere/libnccl-profiler.so", 1);
  FakeNccl nccl = fake(5);
  auto* comm = nccl.comm_init(kHash, 0, 2);
  nccl.run(comm, {{.func = "AllReduce"}}, kStream);
  EXPECT_EQ(records(Kind::kNcclOp).size(), 1u);
}

TEST(NcclChainVersion, SaysWhatCanBeServed) {
  EXPECT_EQ(chain_version(kOtherPlugin), 4);
  EXPECT_EQ(chain_version("libm.so.6"), 0);
  EXPECT_EQ(chain_version(""), 0);
  EXPECT_EQ(chain_version("/nowhere.so"), 0);
}

}  // namespace
}  // namespace stepscope::recorder
