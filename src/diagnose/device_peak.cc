#include "diagnose/device_peak.h"

#include <utility>

namespace stepscope {

namespace {

// Longer names first: the first that occurs in the device's name counts.
constexpr std::pair<std::string_view, double> kPeaks[] = {
    {"H100 PCIe", 756e12}, {"H100 NVL", 835e12}, {"GH200", 989.4e12}, {"H100", 989.4e12},     {"H200", 989.4e12},
    {"B200", 2250e12},     {"A100", 312e12},     {"A800", 312e12},    {"H800", 989.4e12},     {"A10G", 70e12},
    {"A10", 125e12},       {"A30", 165e12},      {"A40", 149.7e12},   {"L40S", 362e12},       {"L40", 181e12},
    {"L4", 121e12},        {"V100", 125e12},     {"T4", 65e12},       {"RTX 4090", 165.2e12}, {"RTX 3090", 71e12},
};

}  // namespace

std::optional<double> device_peak_flops(std::string_view name) {
  if (name.find("MIG") != std::string_view::npos) return std::nullopt;
  for (const auto& [part, flops] : kPeaks)
    if (name.find(part) != std::string_view::npos) return flops;
  return std::nullopt;
}

}  // namespace stepscope
