#include "sampler/devices.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>

#include "fake_nvml_api.h"
#include "recorded_tree.h"

namespace stepscope {
namespace {

using testing::FakeNvml;
constexpr uint64_t kSecond = 1'000'000'000;

DeviceEnvironment env(std::optional<std::string> visible, int local_rank) { return {std::move(visible), local_rank}; }

// Samples for so many seconds, ten calls a second as the agent does.
void run(Devices& devices, int seconds, uint64_t from = kSecond) {
  for (int i = 0; i < seconds * 10; ++i) devices.sample(from + static_cast<uint64_t>(i) * kSecond / 10);
}

HostFacts facts_of(const Devices& devices, std::vector<int> ranks = {0}) {
  HostFacts f;
  for (int r : ranks) f.ranks.emplace_back().rank = r;
  devices.fill(f);
  return f;
}

TEST(Devices, SamplesOnlyTheGpuOfTheRankOncePerInterval) {
  auto nvml = std::make_shared<FakeNvml>(4);
  Devices devices(nvml, kSecond, 64);
  devices.add_rank(0, 111, env("2,3", 1), kSecond);
  run(devices, 20);
  const HostFacts f = facts_of(devices);
  ASSERT_EQ(f.devices.size(), 1u);
  EXPECT_EQ(f.devices[0].index, 3);
  EXPECT_EQ(f.devices[0].ranks, std::vector<int>{0});
  EXPECT_EQ(f.ranks[0].devices, std::vector<int>{0});
  EXPECT_NEAR(static_cast<double>(f.devices[0].utilization_share.count), 20, 1);
  EXPECT_DOUBLE_EQ(f.devices[0].utilization_share.mean, 0.9);
  EXPECT_DOUBLE_EQ(*f.devices[0].memory_total_bytes, 80e9);
  EXPECT_TRUE(std::all_of(nvml->read_devices.begin(), nvml->read_devices.end(), [](int d) { return d == 3; }));
}

TEST(Devices, AFieldThatFailsIsAbsentNamedOnceAndRarelyAskedAgain) {
  auto nvml = std::make_shared<FakeNvml>(1);
  nvml->gpus[0].fields.erase(NvmlField::kPower);
  Devices devices(nvml, kSecond, 64);
  devices.add_rank(0, 111, env(std::nullopt, 0), kSecond);
  run(devices, 50);
  const DeviceFacts d = facts_of(devices).devices.at(0);
  EXPECT_TRUE(d.power_w.empty());
  EXPECT_FALSE(d.power_limit_w.has_value());
  EXPECT_FALSE(d.ecc_uncorrected.last.has_value());
  EXPECT_FALSE(d.temperature_c.empty());  // the others go on
  EXPECT_EQ(std::count(d.unavailable.begin(), d.unavailable.end(), "power: Not Supported"), 1);
  EXPECT_LE(nvml->reads[NvmlField::kPower], 8);
}

TEST(Devices, AFieldThatComesBackIsReadAgain) {
  auto nvml = std::make_shared<FakeNvml>(1);
  nvml->gpus[0].fields.erase(NvmlField::kPower);
  Devices devices(nvml, kSecond, 64);
  devices.add_rank(0, 111, env(std::nullopt, 0), kSecond);
  run(devices, 15);
  nvml->gpus[0].fields[NvmlField::kPower] = 500;
  run(devices, 30, 16 * kSecond);
  EXPECT_GE(facts_of(devices).devices.at(0).power_w.count, 10u);
}

TEST(Devices, OneCallSamplesAtMostOneDevice) {
  auto nvml = std::make_shared<FakeNvml>(8);
  Devices devices(nvml, kSecond, 64);
  for (int r = 0; r < 8; ++r) devices.add_rank(r, 100 + r, env(std::nullopt, r), kSecond);
  for (int i = 0; i < 50; ++i) {
    nvml->read_devices.clear();
    devices.sample(kSecond + static_cast<uint64_t>(i) * kSecond / 10);
    const std::set<int> touched(nvml->read_devices.begin(), nvml->read_devices.end());
    EXPECT_LE(touched.size(), 1u);
  }
  for (const DeviceFacts& d : facts_of(devices, {0, 1, 2, 3, 4, 5, 6, 7}).devices)
    EXPECT_GE(d.utilization_share.count, 4u);
}

TEST(Devices, ThePidListOverridesTheGuess) {
  auto nvml = std::make_shared<FakeNvml>(2);
  nvml->gpus[0].processes = {{222, 1'000'000}};
  nvml->gpus[1].processes = {{111, 2'000'000}};
  Devices devices(nvml, kSecond, 64);
  devices.add_rank(0, 111, env(std::nullopt, 0), kSecond);
  devices.add_rank(1, 222, env(std::nullopt, 1), kSecond);
  run(devices, 3);
  const HostFacts f = facts_of(devices, {0, 1});
  ASSERT_EQ(f.devices.size(), 2u);
  EXPECT_EQ(f.devices[0].ranks, std::vector<int>{1});
  EXPECT_EQ(f.devices[1].ranks, std::vector<int>{0});
  EXPECT_EQ(f.devices[0].processes.at(0).rank, 1);
  EXPECT_DOUBLE_EQ(f.devices[1].processes.at(0).memory_bytes, 2'000'000);
}

TEST(Devices, UuidsAndMigInstancesAreFound) {
  auto nvml = std::make_shared<FakeNvml>(2);
  auto& mig = nvml->gpus.emplace_back(nvml->gpus[1]);
  mig.identity.uuid = "MIG-aaaa-bbbb";
  mig.fields.erase(NvmlField::kUtilization);
  nvml->gpus[1].mig = {2};
  Devices devices(nvml, kSecond, 64);
  devices.add_rank(0, 1, env("GPU-00000000", 0), kSecond);
  devices.add_rank(1, 2, env("MIG-aaaa-bbbb", 1), kSecond);  // its only device, whatever the local rank
  devices.add_rank(2, 3, env("GPU-ffff", 0), kSecond);
  run(devices, 2);
  const HostFacts f = facts_of(devices, {0, 1, 2});
  ASSERT_EQ(f.devices.size(), 2u);
  EXPECT_EQ(f.devices[0].index, 0);
  EXPECT_FALSE(f.devices[0].mig);
  EXPECT_TRUE(f.devices[1].mig);
  EXPECT_EQ(f.devices[1].index, 1);
  EXPECT_TRUE(f.devices[1].utilization_share.empty());
  EXPECT_TRUE(f.ranks[2].devices.empty());
  EXPECT_EQ(f.unavailable, std::vector<std::string>{"GPU health: no device is called GPU-ffff"});
}

TEST(Devices, XidsReachTheirGpuAndTheirNumberIsBounded) {
  auto nvml = std::make_shared<FakeNvml>(2);
  Devices devices(nvml, kSecond, 64);
  devices.add_rank(0, 1, env(std::nullopt, 1), kSecond);
  EXPECT_EQ(nvml->watched, std::vector<int>{1});
  nvml->xids = {{1, 79}, {0, 13}};
  devices.sample(5 * kSecond);
  const DeviceFacts d = facts_of(devices).devices.at(0);
  ASSERT_EQ(d.xids.size(), 1u);
  EXPECT_EQ(d.xids[0].code, 79u);
  EXPECT_EQ(d.xids[0].time_ns, static_cast<int64_t>(5 * kSecond));
  nvml->xids.assign(1000, {1, 13});
  devices.sample(6 * kSecond);
  EXPECT_EQ(facts_of(devices).devices.at(0).xids.size(), Device::kMaxXids);
}

TEST(Devices, ClockReasonsBecomeShares) {
  auto nvml = std::make_shared<FakeNvml>(1);
  Devices devices(nvml, kSecond, 64);
  devices.add_rank(0, 1, env(std::nullopt, 0), kSecond);
  run(devices, 10);
  nvml->gpus[0].fields[NvmlField::kClockReasons] = kClockHwThermal | kClockSwPowerCap;
  run(devices, 10, 11 * kSecond);
  nvml->gpus[0].fields[NvmlField::kClockReasons] = kClockIdle;
  run(devices, 20, 21 * kSecond);
  const DeviceFacts d = facts_of(devices).devices.at(0);
  EXPECT_NEAR(d.thermal_throttle_share.mean, 0.25, 0.03);
  EXPECT_NEAR(d.power_cap_share.mean, 0.25, 0.03);
  EXPECT_EQ(d.clock_reasons_seen, uint64_t{kClockHwThermal | kClockSwPowerCap | kClockIdle});
}

TEST(Devices, CountersKeepTheirFirstValue) {
  auto nvml = std::make_shared<FakeNvml>(1);
  nvml->gpus[0].fields[NvmlField::kEccUncorrected] = 5;
  Devices devices(nvml, kSecond, 64);
  devices.add_rank(0, 1, env(std::nullopt, 0), kSecond);
  run(devices, 15);
  EXPECT_EQ(facts_of(devices).devices.at(0).ecc_uncorrected.delta(), 0u);  // errors of yesterday are not ours
  nvml->gpus[0].fields[NvmlField::kEccUncorrected] = 7;
  run(devices, 15, 16 * kSecond);
  EXPECT_EQ(facts_of(devices).devices.at(0).ecc_uncorrected.delta(), 2u);
}

TEST(Devices, ActivityOfHopperIsRecordedAndImpossibleReadingsAreNot) {
  auto nvml = std::make_shared<FakeNvml>(1);
  nvml->gpus[0].activity = NvmlActivity{0.8, 0.4, 1e9};
  Devices devices(nvml, kSecond, 64);
  devices.add_rank(0, 1, env(std::nullopt, 0), kSecond);
  run(devices, 5);
  const DeviceFacts d = facts_of(devices).devices.at(0);
  EXPECT_DOUBLE_EQ(d.sm_active_share.mean, 0.8);
  EXPECT_DOUBLE_EQ(d.tensor_active_share.mean, 0.4);
  EXPECT_TRUE(d.dram_active_share.empty());
}

TEST(Devices, HiddenGpusAreNotSampled) {
  auto nvml = std::make_shared<FakeNvml>(2);
  Devices devices(nvml, kSecond, 64);
  devices.add_rank(0, 1, env("", 0), kSecond);
  devices.add_rank(1, 2, env("-1", 0), kSecond);
  devices.add_rank(2, 3, env("0,1", 5), kSecond);
  run(devices, 2);
  EXPECT_TRUE(facts_of(devices, {0, 1, 2}).devices.empty());
  EXPECT_TRUE(nvml->read_devices.empty());
}

TEST(VisibleDevices, ReadAsCudaReadsThem) {
  EXPECT_EQ(parse_visible_devices("0, 2,1").size(), 3u);
  EXPECT_EQ(parse_visible_devices("0,x,1").size(), 1u);
  EXPECT_EQ(parse_visible_devices("-1,0").size(), 0u);
  EXPECT_EQ(parse_visible_devices("GPU-1234,MIG-9").at(1).uuid, "MIG-9");
  EXPECT_EQ(parse_visible_devices("3").at(0).index, 3);
}

TEST(VisibleDevices, LocalRankOfTorchWinsOverSlurm) {
  using namespace std::string_literals;
  const DeviceEnvironment e =
      parse_device_environment("A=1\0LOCAL_RANK=3\0SLURM_LOCALID=5\0CUDA_VISIBLE_DEVICES=4,5\0"s);
  EXPECT_EQ(e.local_rank, 3);
  EXPECT_EQ(e.visible, "4,5");
  EXPECT_EQ(parse_device_environment("SLURM_LOCALID=5\0"s).local_rank, 5);
  EXPECT_FALSE(parse_device_environment("X"s).visible.has_value());
}

RC_GTEST_PROP(VisibleDevices, AnyTextIsSafe, (const std::string& text)) {
  RC_ASSERT(parse_visible_devices(text).size() <= 256);
  RC_ASSERT(parse_device_environment(text).local_rank >= 0);
}

TEST(VisibleDevices, AProcessUsesCudaWhenItHoldsTheDriverOpen) {
  testing::RecordedTree tree("");
  tree.write("proc/5/fd/.keep", "");
  EXPECT_FALSE(uses_cuda(tree.roots().proc, 5));
  std::filesystem::create_symlink("/dev/null", tree.path("proc/5/fd/3"));
  EXPECT_FALSE(uses_cuda(tree.roots().proc, 5));
  std::filesystem::create_symlink("/dev/nvidia-uvm", tree.path("proc/5/fd/4"));
  EXPECT_TRUE(uses_cuda(tree.roots().proc, 5));
  EXPECT_FALSE(uses_cuda(tree.roots().proc, 6));
}

}  // namespace
}  // namespace stepscope
