#include "recorder/nccl_plugin.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "fake_gpu.h"
#include "recorder/fake_nccl.h"
#include "recorder/nccl_names.h"

extern "C" {
extern stepscope::recorder::nccl::TableV3 ncclProfiler_v3;
extern stepscope::recorder::nccl::TableV4 ncclProfiler_v4;
extern stepscope::recorder::nccl::TableV5 ncclProfiler_v5;
extern stepscope::recorder::nccl::TableV6 ncclProfiler_v6;
}

namespace stepscope::recorder {
namespace {

using namespace nccl;

constexpr uint64_t kHash = 0xabcdef0123456789;
void* const kStream = reinterpret_cast<void*>(0x11);

uint64_t key(uint64_t sequence, CollectiveOp op, uint64_t peer = 0) {
  return sequence | peer << 40 | static_cast<uint64_t>(op) << 56;
}

class NcclPlugin : public FakeGpu {
 protected:
  FakeNccl fake(int api) {
    FakeNccl nccl(api);
    void* tables[] = {&ncclProfiler_v3, &ncclProfiler_v4, &ncclProfiler_v5, &ncclProfiler_v6};
    nccl.use(tables[api - 3]);
    return nccl;
  }
  static void kernel_5ms(void* stream) { fake_cuda_work(stream, 5'000'000); }
};

TEST(NcclNames, KnowsWhatNcclPrints) {
  EXPECT_EQ(op_of("AllReduce"), CollectiveOp::kAllReduce);
  EXPECT_EQ(op_of("ncclReduceScatter"), CollectiveOp::kReduceScatter);
  EXPECT_EQ(op_of("Recv"), CollectiveOp::kRecv);
  EXPECT_EQ(op_of(nullptr), CollectiveOp::kUnknown);
  EXPECT_EQ(op_of("AllReduceX"), CollectiveOp::kUnknown);
  EXPECT_EQ(datatype_bytes("ncclBfloat16"), 2u);
  EXPECT_EQ(datatype_bytes("ncclFloat8e4m3"), 1u);
  EXPECT_EQ(datatype_bytes("ncclInt64"), 8u);
  EXPECT_EQ(datatype_bytes("?"), 0u);
  EXPECT_EQ(algo_of("NVLS_TREE"), NcclAlgo::kNvlsTree);
  EXPECT_EQ(proto_of("SIMPLE"), NcclProto::kSimple);
}

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
  const auto off = [](const char* name) -> const char* { return std::string_view(name) == "STEPSCOPE_NCCL" ? "off" : nullptr; };
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
      EXPECT_EQ(static_cast<uint64_t>(mask_of(mode, api, false)) & (kProxyOp | kProxyStep | kKernelCh | kNetPlugin), 0u);
      EXPECT_NE(static_cast<uint64_t>(mask_of(mode, api, true)) & kKernelCh, 0u);
    }
}

class NcclOwnEvents : public NcclPlugin, public ::testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(Versions, NcclOwnEvents, ::testing::Values(5, 6));

TEST_P(NcclOwnEvents, TimesEachCollectiveOnTheDevice) {
  ASSERT_TRUE(start());
  FakeNccl nccl = fake(GetParam());
  auto* comm = nccl.comm_init(kHash, 1, 4, "dp:default", 2);
  EXPECT_EQ(fake_cuda_counts().created, kGpuSlotsMarks);
  nccl.run(comm, {{.func = "AllReduce", .count = 1000}}, kStream, false, kernel_5ms);
  nccl.run(comm, {{.func = "AllReduce", .count = 10, .datatype = "ncclBfloat16"}}, kStream, false, kernel_5ms);
  nccl.run(comm, {{.func = "AllGather", .count = 7}}, kStream, false, kernel_5ms);
  ASSERT_TRUE(wait_for(Kind::kNcclTime, 3));
  const auto comms = records(Kind::kNcclComm);
  ASSERT_EQ(comms.size(), 1u);
  EXPECT_EQ(comms[0].a, kHash);
  EXPECT_EQ(comms[0].b, 1u);
  EXPECT_EQ(comms[0].c, 4u);
  EXPECT_EQ(comms[0].d, 2u);
  const auto ops = records(Kind::kNcclOp);
  ASSERT_EQ(ops.size(), 3u);
  EXPECT_EQ(ops[0].a, kHash);
  EXPECT_EQ(ops[0].b, 0u);
  EXPECT_EQ(ops[0].c, 4000u);
  EXPECT_EQ(ops[0].d, static_cast<uint64_t>(CollectiveOp::kAllReduce));
  EXPECT_EQ(ops[1].b, 1u);
  EXPECT_EQ(ops[1].c, 20u);
  EXPECT_EQ(ops[2].b, 0u);  // the sequence is per function
  const auto launches = records(Kind::kNcclEnqueue);
  ASSERT_EQ(launches.size(), 3u);
  EXPECT_EQ(launches[1].b, key(1, CollectiveOp::kAllReduce));
  EXPECT_EQ(launches[1].c, static_cast<uint64_t>(NcclAlgo::kRing) | static_cast<uint64_t>(NcclProto::kLl128) << 8 | 2u << 16);
  EXPECT_EQ(launches[1].d, reinterpret_cast<uint64_t>(kStream));
  EXPECT_LE(ops[1].time_ns, launches[1].time_ns);
  const auto times = records(Kind::kNcclTime);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(times[i].a, kHash);
    EXPECT_EQ(times[i].b, launches[i].b);
    EXPECT_EQ(times[i].flags, static_cast<uint16_t>(NcclTimeSource::kOwnEvents));
    EXPECT_NEAR(static_cast<double>(times[i].d - times[i].c) * 1e-6, 5.0, 0.3);
    EXPECT_GE(times[i].c + 1'000'000, launches[i].time_ns);  // not before its launch, but for the bracket
  }
  nccl.comm_finalize(comm);
  EXPECT_EQ(records(Kind::kNcclComm).back().kind, pack_kind(Kind::kNcclComm, Edge::kEnd));
  EXPECT_EQ(nccl.failures(), 0);
}

TEST_P(NcclOwnEvents, OneLaunchOfAGroupTimesAllItsOperations) {
  ASSERT_TRUE(start());
  FakeNccl nccl = fake(GetParam());
  auto* comm = nccl.comm_init(kHash, 0, 4);
  const std::vector<FakeNccl::Op> ops = {{.func = "Send", .count = 8, .peer = 1}, {.func = "Recv", .count = 8, .peer = 3}};
  nccl.run(comm, ops, kStream, false, kernel_5ms);
  nccl.run(comm, ops, kStream, false, kernel_5ms);
  ASSERT_TRUE(wait_for(Kind::kNcclTime, 4));
  const auto found = records(Kind::kNcclOp);
  ASSERT_EQ(found.size(), 4u);
  EXPECT_EQ(found[0].d, static_cast<uint64_t>(CollectiveOp::kSend) | 1u << 16);
  EXPECT_EQ(found[1].d, static_cast<uint64_t>(CollectiveOp::kRecv) | 3u << 16);
  EXPECT_EQ(found[0].flags, kNcclP2p);
  EXPECT_EQ(found[1].flags, kNcclP2p | kNcclGrouped);
  EXPECT_EQ(found[2].b, 1u);  // our own sequence, per peer and direction
  const auto times = records(Kind::kNcclTime);
  EXPECT_EQ(times[0].b, key(0, CollectiveOp::kSend, 1));
  EXPECT_EQ(times[1].b, key(0, CollectiveOp::kRecv, 3));
  EXPECT_EQ(times[3].b, key(1, CollectiveOp::kRecv, 3));
  EXPECT_EQ(times[0].c, times[1].c);
  EXPECT_EQ(times[0].d, times[1].d);
}

TEST_P(NcclOwnEvents, ALargeAllToAllIsToldByItsFirstOperations) {
  ASSERT_TRUE(start());
  FakeNccl nccl = fake(GetParam());
  auto* comm = nccl.comm_init(kHash, 0, 512);
  std::vector<FakeNccl::Op> ops;
  for (int peer = 1; peer < 512; ++peer) ops.push_back({.func = "Send", .count = 1, .peer = peer});
  nccl.run(comm, ops, kStream);
  EXPECT_EQ(records(Kind::kNcclOp).size(), 64u);
  EXPECT_TRUE(wait_for(Kind::kNcclTime, 64));
  nccl.run(comm, {{.func = "Send", .count = 1, .peer = 511}}, kStream);
  EXPECT_EQ(records(Kind::kNcclOp).back().b, 1u);  // counted although it was not written
}

TEST_P(NcclOwnEvents, TwoCommunicatorsDoNotMixTheirLaunches) {
  ASSERT_TRUE(start());
  FakeNccl nccl = fake(GetParam());
  auto* dp = nccl.comm_init(0xd, 0, 2);
  auto* tp = nccl.comm_init(0x7, 1, 2);
  void* other = reinterpret_cast<void*>(0x22);
  for (int i = 0; i < 20; ++i) {
    nccl.run(dp, {{.func = "ReduceScatter", .count = 16}}, kStream, false, kernel_5ms);
    nccl.run(tp, {{.func = "AllReduce", .count = 4}}, other);
  }
  ASSERT_TRUE(wait_for(Kind::kNcclTime, 40));
  int long_ones = 0, short_ones = 0;
  for (const auto& t : records(Kind::kNcclTime)) {
    const double ms = static_cast<double>(t.d - t.c) * 1e-6;
    if (t.a == 0xd) long_ones += ms > 4;
    if (t.a == 0x7) short_ones += ms < 4;
  }
  EXPECT_EQ(long_ones, 20);
  EXPECT_GE(short_ones, 18);
}

TEST_P(NcclOwnEvents, CapturedOperationsGetNoEventsAndAreMarked) {
  ASSERT_TRUE(start());
  FakeNccl nccl = fake(GetParam());
  auto* comm = nccl.comm_init(kHash, 0, 2);
  fake_cuda_capture(kStream, 1);
  nccl.run(comm, {{.func = "AllReduce"}}, kStream, true);
  fake_cuda_capture(kStream, 0);
  nccl.replay_graph(comm, {.func = "AllReduce"});
  nccl.run(comm, {{.func = "AllReduce"}}, kStream, false, kernel_5ms);
  ASSERT_TRUE(wait_for(Kind::kNcclTime, 1));
  const auto ops = records(Kind::kNcclOp);
  ASSERT_EQ(ops.size(), 2u);
  EXPECT_EQ(ops[0].flags, kNcclCaptured);
  EXPECT_EQ(ops[1].flags, 0);
  EXPECT_EQ(ops[1].b, 0u);
  EXPECT_EQ(records(Kind::kNcclTime).size(), 1u);
}

TEST_P(NcclOwnEvents, AStaleParentGivesNoWrongCallTime) {
  ASSERT_TRUE(start());
  FakeNccl nccl = fake(GetParam());
  auto* comm = nccl.comm_init(kHash, 0, 2);
  const FakeNccl::Op op{.func = "AllReduce"};
  void* stale = nccl.start(comm, kCollApi, nullptr, &op, kStream);
  nccl.stop(stale);
  for (uint32_t i = 0; i < kEvents; ++i) nccl.stop(nccl.start(comm, kGroup, nullptr));  // its slot is taken again
  void* launch = nccl.start(comm, kKernelLaunch, nullptr, nullptr, kStream);
  nccl.stop(launch);
  void* group = nccl.start(comm, kGroup, nullptr);
  for (void* parent : {stale, reinterpret_cast<void*>(~0ull), reinterpret_cast<void*>(0xdead)})
    nccl.stop(nccl.start(comm, kColl, parent, &op, nullptr, false, group));
  nccl.stop(group);
  const auto ops = records(Kind::kNcclOp), launches = records(Kind::kNcclEnqueue);
  ASSERT_EQ(ops.size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(ops[i].time_ns, launches[i].time_ns);
}

TEST_P(NcclOwnEvents, StoppingTwiceOrNonsenseIsHarmless) {
  ASSERT_TRUE(start());
  FakeNccl nccl = fake(GetParam());
  auto* comm = nccl.comm_init(kHash, 0, 2);
  const FakeNccl::Op op{.func = "AllReduce"};
  for (uint32_t i = 0; i < kGpuSlots; ++i) {  // a launch whose group never comes, again and again
    void* launch = nccl.start(comm, kKernelLaunch, nullptr, nullptr, kStream);
    nccl.stop(launch);
    nccl.stop(launch);
  }
  for (const uintptr_t bad : {uintptr_t{1}, uintptr_t{12345678}, ~uintptr_t{0}}) {
    nccl.stop(reinterpret_cast<void*>(bad));
    nccl.state(reinterpret_cast<void*>(bad), kStateKernelChStop, 5);
  }
  // More launches than there are events: none leaked. (So many at once are thinned: see the rate test.)
  for (int i = 0; i < 1024; ++i) nccl.run(comm, {op}, kStream);
  ASSERT_TRUE(wait_for(Kind::kNcclTime, 1));
  EXPECT_EQ(gpu_counts().missing, 0u);
  EXPECT_EQ(nccl.failures(), 0);
}

TEST_P(NcclOwnEvents, RefusesEventsAfterFinalize) {
  ASSERT_TRUE(start());
  FakeNccl nccl = fake(GetParam());
  auto* comm = nccl.comm_init(kHash, 0, 2);
  const FakeNccl::Op op{.func = "AllReduce"};
  void* open = nccl.start(comm, kKernelLaunch, nullptr, nullptr, kStream);
  nccl.comm_finalize(comm);
  nccl.stop(open);
  EXPECT_EQ(nccl.start(comm, kColl, nullptr, &op), nullptr);
  EXPECT_EQ(nccl.start(comm, kKernelLaunch, nullptr, nullptr, kStream), nullptr);
  nccl.comm_finalize(comm);
  EXPECT_TRUE(records(Kind::kNcclOp).empty());
  EXPECT_EQ(Plugin::instance().counts().refused, 2u);
  // A new communicator is served; it may get the same slot.
  auto* next = nccl.comm_init(kHash + 1, 0, 2);
  nccl.run(next, {op}, kStream);
  EXPECT_EQ(records(Kind::kNcclOp).size(), 1u);
}

TEST_P(NcclOwnEvents, TwoRanksOfOneCommunicatorInAProcessGetNoEvents) {
  ASSERT_TRUE(start());
  FakeNccl nccl = fake(GetParam());
  auto* first = nccl.comm_init(kHash, 0, 2);
  auto* second = nccl.comm_init(kHash, 1, 2);
  const uint64_t before = fake_cuda_counts().recorded;
  nccl.run(first, {{.func = "AllReduce"}}, kStream);
  nccl.run(second, {{.func = "AllReduce"}}, kStream);
  EXPECT_EQ(records(Kind::kNcclOp).size(), 2u);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_TRUE(records(Kind::kNcclTime).empty());
  EXPECT_LE(fake_cuda_counts().recorded - before, 10u);  // the poller's own calibration
}

TEST_P(NcclOwnEvents, WithoutCudaTheOperationsAreStillSeen) {
  FakeNccl nccl = fake(GetParam());
  auto* comm = nccl.comm_init(kHash, 0, 2);
  nccl.run(comm, {{.func = "AllReduce"}}, kStream);
  EXPECT_EQ(records(Kind::kNcclOp).size(), 1u);
  EXPECT_EQ(records(Kind::kNcclEnqueue).size(), 1u);
}

TEST_P(NcclOwnEvents, AHighRateThinsTheEventsNotTheRecords) {
  ASSERT_TRUE(start());
  FakeNccl nccl = fake(GetParam());
  auto* comm = nccl.comm_init(kHash, 0, 2);
  int launches = 0;
  const FakeNccl::Op op{.func = "AllReduce"};
  while (Plugin::instance().counts().stride == 1 && launches < 100'000) nccl.run(comm, {op}, kStream), ++launches;
  const uint64_t stride = Plugin::instance().counts().stride;
  if (stride == 1) GTEST_SKIP() << "this machine is too slow for 20,000 launches a second";
  ASSERT_TRUE(eventually([] { return g_gpu.pool && gpu_counts().resolved > 0; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const size_t ops = records(Kind::kNcclOp).size();
  const uint64_t recorded = fake_cuda_counts().recorded;
  for (int i = 0; i < 256; ++i) nccl.run(comm, {op}, kStream);
  EXPECT_EQ(records(Kind::kNcclOp).size(), ops + 256);
  EXPECT_LE(fake_cuda_counts().recorded - recorded, 2 * 256 / 2 + 20);
}

TEST_F(NcclPlugin, CopyEngineCollectivesAreTimedToo) {
  ASSERT_TRUE(start());
  FakeNccl nccl = fake(6);
  auto* comm = nccl.comm_init(kHash, 0, 2);
  nccl.copy_engine(comm, {.func = "AllGather", .count = 5}, kStream, kernel_5ms);
  ASSERT_TRUE(wait_for(Kind::kNcclTime, 1));
  EXPECT_EQ(records(Kind::kNcclOp)[0].flags, kNcclCopyEngine);
  const auto time = records(Kind::kNcclTime)[0];
  EXPECT_NEAR(static_cast<double>(time.d - time.c) * 1e-6, 5.0, 0.3);
}

TEST_F(NcclPlugin, WithOneHardwareQueueOnlyTheEndIsRecorded) {
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 1);
  ::setenv("STEPSCOPE_NCCL_KERNEL_CLOCK", "on", 1);
  ::setenv("STEPSCOPE_NCCL_WINDOW", "2/16", 1);
  ASSERT_TRUE(start());
  FakeNccl nccl = fake(5);
  auto* comm = nccl.comm_init(kHash, 0, 2);
  nccl.run(comm, {{.func = "AllReduce"}}, kStream, false, kernel_5ms);
  ASSERT_TRUE(wait_for(Kind::kNcclTime, 1));
  EXPECT_EQ(records(Kind::kNcclTime)[0].c, 0u);
  EXPECT_GT(records(Kind::kNcclTime)[0].d, 0u);
  EXPECT_EQ(records(Kind::kNcclTime)[0].flags, static_cast<uint16_t>(NcclTimeSource::kOwnEndEvent));
}

class NcclHostMode : public NcclPlugin, public ::testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(Versions, NcclHostMode, ::testing::Values(3, 4));

TEST_P(NcclHostMode, SeesOperationsWithoutDeviceTimes) {
  ASSERT_TRUE(start());
  FakeNccl nccl = fake(GetParam());
  auto* comm = nccl.comm_init(kHash, 2, 8);
  nccl.run(comm, {{.func = "AllReduce", .count = 3}}, kStream);
  nccl.run(comm, {{.func = "Send", .count = 2, .peer = 5}}, kStream);
  const auto ops = records(Kind::kNcclOp);
  ASSERT_EQ(ops.size(), 2u);
  EXPECT_EQ(ops[0].a, kHash);  // version 3 says so only with the operation
  EXPECT_EQ(ops[0].c, 12u);
  EXPECT_EQ(ops[1].d, static_cast<uint64_t>(CollectiveOp::kSend) | 5u << 16);
  EXPECT_EQ(ops[0].flags, 0);
  const auto comms = records(Kind::kNcclComm);
  ASSERT_EQ(comms.size(), 1u);
  EXPECT_EQ(comms[0].a, kHash);
  EXPECT_EQ(comms[0].b, 2u);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_TRUE(records(Kind::kNcclTime).empty());
}

TEST_P(NcclHostMode, TheKernelClockRunsInWindowsOnly) {
  ::setenv("STEPSCOPE_NCCL_KERNEL_CLOCK", "on", 1);
  ::setenv("STEPSCOPE_NCCL_WINDOW", "2/16", 1);
  FakeNccl nccl = fake(GetParam());
  auto* comm = nccl.comm_init(kHash, 0, 2);
  std::vector<int> on;
  for (int step = 1; step <= 40; ++step) {
    nccl.run(comm, {{.func = "AllReduce"}}, kStream);
    const auto now = static_cast<uint64_t>(monotonic_ns());
    nccl.report_channels(now + 1'000'000'000, now + 1'005'000'000);  // the GPU's timer is a second ahead
    if (nccl.mask() & static_cast<int>(kKernelCh)) on.push_back(step);
    step_end(false);
  }
  EXPECT_EQ(on, (std::vector<int>{17, 18, 33, 34}));
  const auto times = records(Kind::kNcclTime);
  ASSERT_EQ(times.size(), 4u);
  for (const auto& t : times) {
    if (GetParam() == 4) {
      EXPECT_EQ(t.flags, static_cast<uint16_t>(NcclTimeSource::kKernelClock));
      EXPECT_NEAR(static_cast<double>(t.d - t.c) * 1e-6, 5.0, 0.001);  // 5 ms and the second channel's 100 ns
    } else {
      EXPECT_EQ(t.flags, static_cast<uint16_t>(NcclTimeSource::kKernelPolled));
      EXPECT_GE(t.d, t.c);
    }
  }
}

TEST_P(NcclHostMode, AChannelThatLostItsEndStateMakesNoTime) {
  ::setenv("STEPSCOPE_NCCL_KERNEL_CLOCK", "on", 1);
  ::setenv("STEPSCOPE_NCCL_WINDOW", "15/16", 1);
  FakeNccl nccl = fake(GetParam());
  auto* comm = nccl.comm_init(kHash, 0, 2);
  for (int i = 0; i < 17; ++i) step_end(false);
  nccl.run(comm, {{.func = "AllReduce"}}, kStream);
  for (const auto& task : nccl.take_tasks()) {
    void* channel = nccl.start(comm, kKernelCh, task.handle, nullptr, nullptr, false, nullptr, 100);
    EXPECT_NE(channel, nullptr);
    nccl.stop(channel);
  }
  EXPECT_TRUE(records(Kind::kNcclTime).empty());
  EXPECT_EQ(nccl.start(comm, kKernelCh, reinterpret_cast<void*>(999'999), nullptr), nullptr);  // stale parent
}

TEST_F(NcclPlugin, TimesOneStepInSixteenAndThoseAskedFor) {
  ASSERT_TRUE(start());
  FakeNccl nccl = fake(5);
  auto* comm = nccl.comm_init(kHash, 0, 2);
  std::vector<uint64_t> expected;
  constexpr uint64_t kSteps = 40, kAskedFrom = 21, kAskedTo = 24;
  for (uint64_t step = 0; step < kSteps; ++step) {  // sequence of the operation = step
    if (step % kTimedEvery == 0 || (step >= kAskedFrom && step < kAskedTo)) expected.push_back(step);
    nccl.run(comm, {{.func = "AllReduce"}}, kStream);
    step_end(step + 1 >= kAskedFrom && step + 1 < kAskedTo);
  }
  EXPECT_EQ(records(Kind::kNcclOp).size(), kSteps);
  ASSERT_TRUE(wait_for(Kind::kNcclTime, expected.size()));
  std::vector<uint64_t> timed;
  for (const auto& r : records(Kind::kNcclTime)) timed.push_back(r.b & 0xff'ffff'ffffull);
  EXPECT_EQ(timed, expected);
}

TEST_F(NcclPlugin, AskedForEveryStepItMakesAllEventsAtOnce) {
  ::setenv("STEPSCOPE_NCCL", "events", 1);
  ASSERT_TRUE(gpu_arm());
  fake_cuda_context(reinterpret_cast<void*>(0xc0));
  FakeNccl nccl = fake(5);
  nccl.comm_init(kHash, 0, 2);
  EXPECT_TRUE(gpu_running());
  EXPECT_EQ(fake_cuda_counts().created, kGpuSlots);
}

TEST_F(NcclPlugin, SwitchedOffItAsksForNothing) {
  ::setenv("STEPSCOPE_NCCL", "off", 1);
  FakeNccl nccl = fake(5);
  auto* comm = nccl.comm_init(kHash, 0, 2);
  EXPECT_EQ(nccl.mask(), 0);
  nccl.run(comm, {{.func = "AllReduce"}}, kStream);
  EXPECT_TRUE(records(Kind::kNcclOp).empty());
  EXPECT_TRUE(records(Kind::kNcclComm).size() <= 1);
}

TEST_F(NcclPlugin, SeveralThreadsWithTheirOwnCommunicators) {
  ASSERT_TRUE(start());
  FakeNccl nccl = fake(5);
  std::vector<std::thread> threads;
  std::vector<FakeNccl::Comm*> comms;
  for (uint64_t t = 0; t < 4; ++t) comms.push_back(nccl.comm_init(100 + t, 0, 2));
  for (size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      fake_cuda_context(reinterpret_cast<void*>(0xc0));
      FakeNccl mine = fake(5);
      auto* comm = comms[t];
      // The mask is NCCL's global; each thread drives its own fake with the same plugin.
      auto* own = mine.comm_init(200 + t, 0, 2);
      for (int i = 0; i < 300; ++i) mine.run(i % 2 ? own : comm, {{.func = "AllReduce"}}, reinterpret_cast<void*>(t + 1));
      mine.comm_finalize(own);
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(records(Kind::kNcclOp).size(), 1200u);
  // Whatever was measured arrives; at this rate not every launch is.
  EXPECT_GT(Plugin::instance().counts().launches, 0u);
  gpu_stop("test", 500);
  EXPECT_GT(records(Kind::kNcclTime).size(), 0u);
  EXPECT_EQ(records(Kind::kNcclTime).size(), gpu_counts().resolved);
  EXPECT_EQ(Plugin::instance().counts().comms, 4u);
}

TEST_F(NcclPlugin, AProxyThreadReportsWhileTheAppEnqueuesAndFinalizes) {
  ::setenv("STEPSCOPE_NCCL_KERNEL_CLOCK", "on", 1);
  ::setenv("STEPSCOPE_NCCL_WINDOW", "15/16", 1);
  FakeNccl nccl = fake(4);
  auto* comm = nccl.comm_init(kHash, 0, 2);
  for (int i = 0; i < 17; ++i) step_end(false);
  std::mutex mutex;
  std::vector<FakeNccl::Task> shared;
  std::atomic<bool> done{false};
  std::thread proxy([&] {
    FakeNccl mine = fake(4);
    while (!done) {
      std::vector<FakeNccl::Task> tasks;
      {
        const std::lock_guard lock(mutex);
        tasks.swap(shared);
      }
      for (const auto& task : tasks)
        for (int c = 0; c < task.channels; ++c) {
          void* channel = mine.start(task.comm, kKernelCh, task.handle, nullptr, nullptr, false, nullptr, monotonic_ns());
          mine.state(channel, kStateKernelChStop, monotonic_ns());
          mine.stop(channel);
        }
    }
  });
  size_t enqueued = 0;
  while (enqueued < 2000 || (records(Kind::kNcclTime).empty() && enqueued < 200'000)) {
    nccl.run(comm, {{.func = "AllReduce"}}, kStream);
    ++enqueued;
    const auto tasks = nccl.take_tasks();
    const std::lock_guard lock(mutex);
    shared.insert(shared.end(), tasks.begin(), tasks.end());
  }
  nccl.comm_finalize(comm);
  done = true;
  proxy.join();
  EXPECT_EQ(records(Kind::kNcclOp).size(), enqueued);
  EXPECT_GT(records(Kind::kNcclTime).size(), 0u);
}

TEST_F(NcclPlugin, AForkedChildIsServedNothing) {
  ASSERT_TRUE(start());
  FakeNccl nccl = fake(5);
  auto* comm = nccl.comm_init(kHash, 0, 2);
  const pid_t child = ::fork();
  if (child == 0) {
    const FakeNccl::Op op{.func = "AllReduce"};
    bool quiet = nccl.start(comm, kColl, nullptr, &op) == nullptr;
    nccl.run(comm, {op}, kStream);
    auto* fresh = nccl.comm_init(kHash + 1, 0, 2);
    quiet = quiet && nccl.mask() == 0 && fresh->context == nullptr;
    nccl.comm_finalize(comm);
    ::_exit(quiet && records(Kind::kNcclOp).empty() && nccl.failures() == 0 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  nccl.run(comm, {{.func = "AllReduce"}}, kStream);
  EXPECT_EQ(records(Kind::kNcclOp).size(), 1u);
}

// ---- chain-loading ----

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
