#include "diagnose/device_peak.h"

#include <gtest/gtest.h>

namespace stepscope {
namespace {

TEST(DevicePeak, IsKnownByTheNameThatTorchGives) {
  EXPECT_EQ(device_peak_flops("cuda:0 NVIDIA H100 80GB HBM3"), 989.4e12);
  EXPECT_EQ(device_peak_flops("NVIDIA H100 PCIe"), 756e12);
  EXPECT_EQ(device_peak_flops("NVIDIA A100-SXM4-40GB"), 312e12);
  EXPECT_EQ(device_peak_flops("NVIDIA A10G"), 70e12);
  EXPECT_EQ(device_peak_flops("NVIDIA L40S"), 362e12);
  EXPECT_EQ(device_peak_flops("NVIDIA L4"), 121e12);
}

TEST(DevicePeak, IsNotGuessed) {
  EXPECT_EQ(device_peak_flops("cpu"), std::nullopt);
  EXPECT_EQ(device_peak_flops(""), std::nullopt);
  EXPECT_EQ(device_peak_flops("NVIDIA H100 80GB HBM3 MIG 1g.10gb"), std::nullopt) << "a slice has a share of the peak";
}

}  // namespace
}  // namespace stepscope
