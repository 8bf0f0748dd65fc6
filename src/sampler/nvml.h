// The part of NVML that we use, as an interface: the system's library by dlopen, or a fake in tests. Every call may
// fail by itself; a failure carries NVML's reason and never a number that looks measured.
//
// Only the stable C ABI of libnvidia-ml.so.1 is used. nvmlDeviceGetPcieThroughput is not: it blocks for 20 ms.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace stepscope {

// Numbers that one call gives, in the units of the facts (shares 0..1, bytes, degrees Celsius, watts, MHz, counts).
enum class NvmlField : uint8_t {
  kUtilization,
  kMemoryUtilization,
  kMemoryUsed,
  kMemoryTotal,
  kTemperature,
  kMemoryTemperature,
  kTemperatureSlowdown,
  kPower,
  kPowerLimit,
  kSmClock,
  kSmClockMax,
  kClockReasons,
  kEccCorrected,
  kEccUncorrected,
  kRemappedPending,
  kPcieReplays,
  kPcieWidth,
  kPcieWidthMax,
  kPcieGeneration,
  kPcieGenerationMax,
  kNvlinkErrors,
  kNvlinksActive,
};
inline constexpr size_t kNvmlFieldCount = 22;
const char* name(NvmlField field);

struct NvmlIdentity {
  std::string name, uuid, pci_bus;
};
struct NvmlProcess {
  uint32_t pid = 0;
  uint64_t memory_bytes = 0;
};
struct NvmlXid {
  int device = -1;
  uint64_t code = 0;
};
// Since the previous call for the same device.
struct NvmlActivity {
  double sm_share = 0, tensor_share = 0, dram_share = 0;
};

// Devices are numbered as opened: GPUs 0..gpu_count-1 in NVML's order, MIG instances as open_mig() returned them.
// One thread.
class NvmlApi {
 public:
  virtual ~NvmlApi() = default;
  virtual Result<int> gpu_count() = 0;
  virtual Result<NvmlIdentity> identity(int device) = 0;
  virtual Result<double> read(int device, NvmlField field) = 0;
  virtual Result<std::vector<NvmlProcess>> processes(int device) = 0;
  // The MIG instances of a GPU; empty when MIG is off or unknown to the card.
  virtual std::vector<int> open_mig(int gpu) = 0;
  // Watch these devices for XID errors; then ask what came, without waiting.
  virtual Status watch_xids(const std::vector<int>& devices) = 0;
  virtual std::vector<NvmlXid> poll_xids() = 0;
  // Counters of Hopper and newer; the first call for a device fails ("first reading").
  virtual Result<NvmlActivity> activity(int device) = 0;
};

// Opens `library` (by default the system's). Fails with one line where there is none or it cannot start.
Result<std::shared_ptr<NvmlApi>> open_nvml(const std::string& library = "libnvidia-ml.so.1");

}  // namespace stepscope
