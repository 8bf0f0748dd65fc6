// Peak arithmetic of devices by name, for MFU: dense tensor-core rate in 16 bits (bf16, fp16), the one that model FLOPs
// utilisation is quoted against. Data sheets of the vendor; boards of one name with other limits (MIG slices, power
// caps) need the setting peak_flops.
#pragma once

#include <optional>
#include <string_view>

namespace stepscope {

// FLOP/s of a device named like torch names it ("NVIDIA H100 80GB HBM3"); nullopt = not in the table.
std::optional<double> device_peak_flops(std::string_view name);

}  // namespace stepscope
