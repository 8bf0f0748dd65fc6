// An NvmlApi in memory: fields are set by tests, what is not set fails as "Not Supported".
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sampler/nvml.h"

namespace stepscope::testing {

class FakeNvml final : public NvmlApi {
 public:
  struct Gpu {
    NvmlIdentity identity;
    std::map<NvmlField, double> fields;
    std::vector<NvmlProcess> processes;
    std::vector<int> mig;
    Result<NvmlActivity> activity = fail("needs Hopper or newer");
  };
  std::vector<Gpu> gpus;                     // MIG instances stand behind the GPUs
  int whole_gpus = 0;
  std::vector<NvmlXid> xids;                 // handed out by the next poll
  std::map<NvmlField, int> reads;            // how often each field was asked for, over all devices
  std::vector<int> read_devices;             // which device, in order
  std::vector<int> watched;

  explicit FakeNvml(int count = 1) : whole_gpus(count) {
    for (int i = 0; i < count; ++i) {
      Gpu& g = gpus.emplace_back();
      g.identity = {"Fake H100", "GPU-0000000" + std::to_string(i), "00000000:0" + std::to_string(i) + ":00.0"};
      g.fields = {{NvmlField::kUtilization, 0.9}, {NvmlField::kMemoryUsed, 4e9}, {NvmlField::kMemoryTotal, 80e9},
                  {NvmlField::kTemperature, 55},  {NvmlField::kPower, 400},      {NvmlField::kSmClock, 1700},
                  {NvmlField::kClockReasons, 0}};
    }
  }

  Result<int> gpu_count() override { return whole_gpus; }
  Result<NvmlIdentity> identity(int device) override {
    if (!known(device)) return fail("no such device");
    return at(device).identity;
  }
  Result<double> read(int device, NvmlField field) override {
    ++reads[field];
    read_devices.push_back(device);
    if (!known(device)) return fail("no such device");
    const auto it = at(device).fields.find(field);
    if (it == at(device).fields.end()) return fail("Not Supported");
    return it->second;
  }
  Result<std::vector<NvmlProcess>> processes(int device) override { return at(device).processes; }
  std::vector<int> open_mig(int gpu) override { return at(gpu).mig; }
  Status watch_xids(const std::vector<int>& devices) override {
    watched.insert(watched.end(), devices.begin(), devices.end());
    return {};
  }
  std::vector<NvmlXid> poll_xids() override { return std::exchange(xids, {}); }
  Result<NvmlActivity> activity(int device) override { return at(device).activity; }

 private:
  bool known(int device) const { return device >= 0 && static_cast<size_t>(device) < gpus.size(); }
  Gpu& at(int device) { return gpus.at(static_cast<size_t>(device)); }
};

}  // namespace stepscope::testing
