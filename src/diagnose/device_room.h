// What is known from outside about the memory of a rank's device: its size and who else lives on it. The agent fills it
// from what NVML says; without it the capacity that the rank itself reported must do.
#pragma once

#include <vector>

namespace stepscope {

struct DeviceTenant {
  int pid = 0;
  double bytes = 0;
};

struct DeviceRoom {
  double capacity_bytes = 0;         // 0 = not known
  double own_bytes = 0;              // of the rank's process as the driver counts it, context included; 0 = not known
  std::vector<DeviceTenant> others;  // processes that are no ranks of this run
  double other_ranks_bytes = 0;      // ranks that share the device
};

}  // namespace stepscope
