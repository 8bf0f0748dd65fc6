#include <gtest/gtest.h>

#include "fake_nccl_job.h"

namespace stepscope::recorder {
namespace {

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
  EXPECT_EQ(launches[1].c,
            static_cast<uint64_t>(NcclAlgo::kRing) | static_cast<uint64_t>(NcclProto::kLl128) << 8 | 2u << 16);
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
  const std::vector<FakeNccl::Op> ops = {{.func = "Send", .count = 8, .peer = 1},
                                         {.func = "Recv", .count = 8, .peer = 3}};
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
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (Plugin::instance().counts().stride == 1 && launches < 100'000 && std::chrono::steady_clock::now() < patience)
    nccl.run(comm, {op}, kStream), ++launches;
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

}  // namespace
}  // namespace stepscope::recorder
