// The GPUs that ranks use: finds them, samples one after the other so that no call of sample() waits for all of them.
// One sample of an H200 takes about 1.5 ms in the driver; with many devices the interval stretches (sample_pace.h).
//
// A rank's device is the one that lists its pid; where pids are those of another namespace, the LOCAL_RANK-th of its
// CUDA_VISIBLE_DEVICES. NVML is opened when the first rank is added, GPUs that no rank uses are not touched (unless a
// UUID must be searched for). By default CUDA numbers GPUs by speed and NVML by bus; on nodes with GPUs of one kind
// these agree, else only the list of pids is trusted.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sampler/device.h"
#include "sampler/nvml.h"
#include "sampler/sample_pace.h"
#include "sampler/visible_devices.h"

namespace stepscope {

class Devices {
 public:
  // `nvml` null: opened when needed.
  Devices(std::shared_ptr<NvmlApi> nvml, uint64_t interval_ns, size_t series_capacity);

  // A rank that has opened the CUDA driver.
  void add_rank(int rank, int pid, const DeviceEnvironment& environment, uint64_t now_ns);
  void remove_rank(int rank);
  void sample(uint64_t now_ns);
  uint64_t next_due_ns() const;
  void fill(HostFacts& facts) const;

 private:
  struct User {
    int rank, pid;
    std::optional<int> guess;   // position in devices_
    std::optional<int> device;  // position in devices_; by pid
    bool gone = false;
  };
  struct Followed {
    Device device;
    uint64_t due_ns;
  };

  std::optional<int> resolve(const DeviceEnvironment& environment, uint64_t now_ns);
  std::optional<int> by_uuid(const std::string& uuid, uint64_t now_ns);
  std::optional<int> by_index(int index, uint64_t now_ns);
  int follow(int number, int gpu, bool mig, uint64_t now_ns);
  void match_pids();
  void note(const std::string& text);

  std::shared_ptr<NvmlApi> nvml_;
  bool tried_ = false;
  uint64_t interval_ns_;
  size_t series_capacity_;
  std::vector<Followed> devices_;
  std::vector<User> users_;
  SamplePace pace_{Device::kSlowEvery};
  std::vector<std::string> unavailable_;
};

}  // namespace stepscope
