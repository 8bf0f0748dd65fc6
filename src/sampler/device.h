// One GPU or MIG instance, sampled through NvmlApi. A field that fails is absent from the facts and its reason noted
// once; after kGiveUpAfter failures in a row it is asked for only with the slow fields.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "align/host_facts.h"
#include "sampler/nvml.h"
#include "sampler/series.h"

namespace stepscope {

class Device {
 public:
  static constexpr int kGiveUpAfter = 3;
  static constexpr uint64_t kSlowEvery = 10;  // samples between readings of counters, links and processes
  static constexpr size_t kMaxXids = 64;

  // `number`: the device's in `nvml`; `gpu`: index of the GPU it is (part of). Reads what does not change.
  Device(NvmlApi& nvml, int number, int gpu, bool mig, size_t series_capacity);

  // True when the slow fields were read as well.
  bool sample(NvmlApi& nvml, uint64_t now_ns);
  void note_xid(uint64_t now_ns, uint64_t code);

  int number() const { return number_; }
  int gpu() const { return facts_.index; }
  const std::string& uuid() const { return facts_.uuid; }
  const std::vector<DeviceProcess>& processes() const { return facts_.processes; }
  DeviceFacts facts() const;

 private:
  std::optional<double> get(NvmlApi& nvml, NvmlField field);
  void add(NvmlApi& nvml, NvmlField field, Series& series, int64_t now);
  void count(NvmlApi& nvml, NvmlField field, SampledCounter& counter);
  void sample_clocks(NvmlApi& nvml, int64_t now);
  void sample_activity(NvmlApi& nvml, int64_t now);
  void sample_slow(NvmlApi& nvml);
  void missing(const char* what, const std::string& reason);

  int number_;
  uint64_t samples_ = 0;
  std::array<int, kNvmlFieldCount> failures_{};
  bool activity_failed_ = false, processes_failed_ = false;
  DeviceFacts facts_;  // all but the series
  Series utilization_, memory_utilization_, memory_used_, temperature_, memory_temperature_, power_, sm_clock_;
  Series thermal_, power_cap_, sm_active_, tensor_active_, dram_active_;
};

}  // namespace stepscope
