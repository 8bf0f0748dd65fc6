// Which GPU a rank uses, told from outside: CUDA_VISIBLE_DEVICES and LOCAL_RANK in the environment it was started with,
// and whether it has opened the CUDA driver at all.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stepscope {

struct DeviceEnvironment {
  std::optional<std::string> visible;  // CUDA_VISIBLE_DEVICES; nullopt = not set, all GPUs
  int local_rank = 0;                  // LOCAL_RANK, else SLURM_LOCALID, else 0
};
// `text`: /proc/<pid>/environ, zero-separated.
DeviceEnvironment parse_device_environment(std::string_view text);

struct VisibleDevice {
  int index = -1;    // of a GPU; -1 = named by uuid
  std::string uuid;  // "GPU-…" or "MIG-…", perhaps only its begin
};
// As CUDA reads it: entries up to the first that is invalid; "" and "-1" hide all.
std::vector<VisibleDevice> parse_visible_devices(std::string_view list);

// Whether the process holds the CUDA driver's device file open. `proc`: the folder /proc.
bool uses_cuda(const std::string& proc, int pid);

}  // namespace stepscope
