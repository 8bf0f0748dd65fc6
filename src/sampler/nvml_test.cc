#include "sampler/nvml.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "fake_nvml.h"

namespace stepscope {
namespace {

using testing::FakeNvmlState;

// The library, built beside the test, with its state reset; stays loaded so that the state outlives the API under test.
class Library {
 public:
  explicit Library(const char* name)
      : path_((std::filesystem::read_symlink("/proc/self/exe").parent_path() / name).string()),
        handle_(::dlopen(path_.c_str(), RTLD_NOW)) {
    if (!handle_) return;
    state_ = reinterpret_cast<FakeNvmlState* (*)()>(::dlsym(handle_, "fake_nvml_state"))();
    *state_ = {};
  }
  ~Library() {
    if (handle_) ::dlclose(handle_);
  }
  FakeNvmlState& state() { return *state_; }
  Result<std::shared_ptr<NvmlApi>> open() const { return open_nvml(path_); }

 private:
  std::string path_;
  void* handle_;
  FakeNvmlState* state_ = nullptr;
};

double value(NvmlApi& api, NvmlField field, int device = 0) {
  const auto v = api.read(device, field);
  EXPECT_TRUE(v.has_value()) << name(field) << ": " << (v ? "" : v.error().message);
  return v.value_or(-1);
}

TEST(Nvml, AMissingLibraryIsAReasonNotACrash) {
  const auto api = open_nvml("libthere-is-none.so.1");
  ASSERT_FALSE(api.has_value());
  EXPECT_NE(api.error().message.find("no NVIDIA driver library"), std::string::npos);
}

TEST(Nvml, AnotherLibraryOfThatNameIsRefused) { EXPECT_FALSE(open_nvml("libm.so.6").has_value()); }

TEST(Nvml, ReadsEveryFieldInItsUnit) {
  Library library("libfake_nvml.so");
  const auto opened = library.open();
  ASSERT_TRUE(opened.has_value()) << opened.error().message;
  NvmlApi& api = **opened;
  EXPECT_EQ(api.gpu_count().value_or(0), 2);
  EXPECT_EQ(library.state().handles_fetched, 0);  // nothing is attached before it is asked for
  EXPECT_DOUBLE_EQ(value(api, NvmlField::kUtilization), 0.75);
  EXPECT_DOUBLE_EQ(value(api, NvmlField::kMemoryUtilization), 0.25);
  EXPECT_DOUBLE_EQ(value(api, NvmlField::kMemoryUsed), 30);
  EXPECT_DOUBLE_EQ(value(api, NvmlField::kMemoryTotal), 80);
  EXPECT_DOUBLE_EQ(value(api, NvmlField::kTemperature), 61);
  EXPECT_DOUBLE_EQ(value(api, NvmlField::kMemoryTemperature), 55);
  EXPECT_DOUBLE_EQ(value(api, NvmlField::kTemperatureSlowdown), 89);
  EXPECT_DOUBLE_EQ(value(api, NvmlField::kPower), 650.5);
  EXPECT_DOUBLE_EQ(value(api, NvmlField::kPowerLimit), 700);
  EXPECT_DOUBLE_EQ(value(api, NvmlField::kSmClock), 1500);
  EXPECT_DOUBLE_EQ(value(api, NvmlField::kSmClockMax), 1980);
  EXPECT_DOUBLE_EQ(value(api, NvmlField::kClockReasons), 0x40);
  EXPECT_DOUBLE_EQ(value(api, NvmlField::kEccCorrected), 11);
  EXPECT_DOUBLE_EQ(value(api, NvmlField::kEccUncorrected), 2);
  EXPECT_DOUBLE_EQ(value(api, NvmlField::kRemappedPending), 1);
  EXPECT_DOUBLE_EQ(value(api, NvmlField::kPcieReplays), 7);
  EXPECT_DOUBLE_EQ(value(api, NvmlField::kPcieWidth), 8);
  EXPECT_DOUBLE_EQ(value(api, NvmlField::kPcieWidthMax), 16);
  EXPECT_DOUBLE_EQ(value(api, NvmlField::kNvlinkErrors), 7);  // of the totals that the driver knows
  EXPECT_DOUBLE_EQ(value(api, NvmlField::kNvlinksActive), 17);
  EXPECT_FALSE(api.read(0, NvmlField::kPcieGeneration).has_value());  // this library has no such call
  EXPECT_EQ(api.read(0, NvmlField::kPcieGeneration).error().message, "not in this driver");
  EXPECT_EQ(api.identity(1)->uuid, "GPU-00000001");
  EXPECT_LE(api.identity(1)->pci_bus.size(), 31u);
}

TEST(Nvml, LinkErrorsToldLinkByLinkCountFromTheFirstReading) {
  Library library("libfake_nvml.so");
  auto api = *library.open();
  library.state().link_totals = false;
  for (auto& n : library.state().link_replays) n = 1000;  // of yesterday
  for (int i = 0; i < 8; ++i) EXPECT_DOUBLE_EQ(value(*api, NvmlField::kNvlinkErrors), 0);
  library.state().link_replays[17] += 5;
  library.state().link_replays[2] += 1;
  double seen = 0;
  for (int i = 0; i < 8; ++i) seen = value(*api, NvmlField::kNvlinkErrors);
  EXPECT_DOUBLE_EQ(seen, 6);
}

TEST(Nvml, AFailingCallCarriesTheDriversReason) {
  Library library("libfake_nvml.so");
  auto api = *library.open();
  library.state().failing_result = 15;
  for (size_t f = 0; f < kNvmlFieldCount; ++f) {
    const auto v = api->read(0, static_cast<NvmlField>(f));
    ASSERT_FALSE(v.has_value()) << name(static_cast<NvmlField>(f));
    EXPECT_NE(v.error().message, "");
  }
  EXPECT_EQ(api->read(0, NvmlField::kPower).error().message, "GPU is lost");
  EXPECT_FALSE(api->processes(0).has_value());
  EXPECT_FALSE(api->activity(0).has_value());
  EXPECT_FALSE(api->watch_xids({0}).has_value());
  EXPECT_FALSE(api->read(7, NvmlField::kPower).has_value());
  EXPECT_FALSE(api->read(-1, NvmlField::kPower).has_value());
}

TEST(Nvml, AFailingStartLeavesNothingOpen) {
  Library library("libfake_nvml.so");
  library.state().init_result = 4;
  EXPECT_FALSE(library.open().has_value());
  EXPECT_EQ(library.state().open, 0);
}

TEST(Nvml, EverythingThatWasOpenedIsClosed) {
  Library library("libfake_nvml.so");
  {
    auto api = *library.open();
    (void)api->activity(0);
    (void)api->activity(1);
    (void)api->watch_xids({0, 1});
    EXPECT_EQ(library.state().open, 1);
    EXPECT_EQ(library.state().live_gpm_samples, 4);
    EXPECT_EQ(library.state().live_event_sets, 1);
  }
  EXPECT_EQ(library.state().open, 0);
  EXPECT_EQ(library.state().live_gpm_samples, 0);
  EXPECT_EQ(library.state().live_event_sets, 0);
}

TEST(Nvml, XidsArePolledWithoutWaiting) {
  Library library("libfake_nvml.so");
  auto api = *library.open();
  EXPECT_TRUE(api->poll_xids().empty());
  (void)value(*api, NvmlField::kPower, 1);
  ASSERT_TRUE(api->watch_xids({1}).has_value());
  library.state().xid_queue[0] = 79;
  library.state().xid_queue[1] = 31;
  const auto xids = api->poll_xids();
  EXPECT_EQ(library.state().xid_timeout_ms, 0u);
  ASSERT_EQ(xids.size(), 2u);
  EXPECT_EQ(xids[0].device, 1);
  EXPECT_EQ(xids[0].code, 79u);
  EXPECT_EQ(xids[1].code, 31u);
}

TEST(Nvml, ActivityNeedsTwoReadingsInOrder) {
  Library library("libfake_nvml.so");
  auto api = *library.open();
  EXPECT_EQ(api->activity(0).error().message, "first reading");
  for (int i = 0; i < 3; ++i) {
    const auto a = api->activity(0);
    ASSERT_TRUE(a.has_value()) << a.error().message;
    EXPECT_DOUBLE_EQ(a->sm_share, 0.8);
    EXPECT_DOUBLE_EQ(a->tensor_share, 0.4);
    EXPECT_DOUBLE_EQ(a->dram_share, 0.2);
  }
  library.state().gpm_supported = 0;
  EXPECT_EQ(api->activity(1).error().message, "needs Hopper or newer");
}

TEST(Nvml, ProcessesBeyondTheFirstListAreReadAndUnknownMemoryIsZero) {
  Library library("libfake_nvml.so");
  auto api = *library.open();
  library.state().process_count = 200;
  const auto list = api->processes(0);
  ASSERT_TRUE(list.has_value());
  ASSERT_EQ(list->size(), 200u);
  EXPECT_EQ((*list)[0].memory_bytes, 0u);
  EXPECT_EQ((*list)[199].pid, 299u);
  library.state().process_count = 1'000'000;
  EXPECT_FALSE(api->processes(0).has_value());
}

TEST(Nvml, MigInstancesAreOpenedOnce) {
  Library library("libfake_nvml.so");
  library.state().mig_gpu = 1;
  auto api = *library.open();
  EXPECT_TRUE(api->open_mig(0).empty());
  const auto first = api->open_mig(1);
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(api->open_mig(1), first);
  EXPECT_EQ(api->identity(first[1])->uuid, "MIG-00000001");
  EXPECT_FALSE(api->read(first[0], NvmlField::kUtilization).has_value());
  EXPECT_DOUBLE_EQ(value(*api, NvmlField::kMemoryUsed, first[0]), 30);
}

TEST(Nvml, DriversBefore535ServeWhatTheyHave) {
  Library library("libfake_nvml_old.so");
  auto api = *library.open();
  EXPECT_DOUBLE_EQ(value(*api, NvmlField::kClockReasons), 0x4);  // by the older name
  EXPECT_EQ(api->activity(0).error().message, "not in this driver");
  EXPECT_EQ(api->read(0, NvmlField::kRemappedPending).error().message, "not in this driver");
  EXPECT_EQ(api->processes(0)->size(), 3u);
}

}  // namespace
}  // namespace stepscope
