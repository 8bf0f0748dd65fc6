#include "sampler/device.h"

#include <algorithm>
#include <cmath>

namespace stepscope {
namespace {

constexpr uint64_t kThermalBits = kClockHwSlowdown | kClockSwThermal | kClockHwThermal | kClockHwPowerBrake;

std::optional<int> whole(std::optional<double> v) {
  return v ? std::optional(static_cast<int>(std::lround(*v))) : std::nullopt;
}

}  // namespace

Device::Device(NvmlApi& nvml, int number, int gpu, bool mig, size_t series_capacity) : number_(number) {
  for (Series* s : {&utilization_, &memory_utilization_, &memory_used_, &temperature_, &memory_temperature_, &power_,
                    &sm_clock_, &thermal_, &power_cap_, &sm_active_, &tensor_active_, &dram_active_}) {
    *s = Series(series_capacity);
  }
  facts_.index = gpu;
  facts_.mig = mig;
  if (const auto id = nvml.identity(number)) {
    facts_.name = id->name;
    facts_.uuid = id->uuid;
    facts_.pci_bus = id->pci_bus;
  } else {
    missing("device", id.error().message);
  }
  facts_.memory_total_bytes = get(nvml, NvmlField::kMemoryTotal);
  facts_.temperature_slowdown_c = get(nvml, NvmlField::kTemperatureSlowdown);
  facts_.sm_clock_max_mhz = get(nvml, NvmlField::kSmClockMax);
}

void Device::missing(const char* what, const std::string& reason) {
  const std::string prefix = std::string(what) + ": ";
  for (const std::string& u : facts_.unavailable) {
    if (u.starts_with(prefix)) return;
  }
  facts_.unavailable.push_back(prefix + reason);
}

std::optional<double> Device::get(NvmlApi& nvml, NvmlField field) {
  int& failed = failures_[static_cast<size_t>(field)];
  if (failed >= kGiveUpAfter && samples_ % kSlowEvery != 0) return std::nullopt;
  const auto value = nvml.read(number_, field);
  if (!value) {
    ++failed;
    missing(name(field), value.error().message);
    return std::nullopt;
  }
  failed = 0;
  return *value;
}

void Device::add(NvmlApi& nvml, NvmlField field, Series& series, int64_t now) {
  if (const auto v = get(nvml, field)) series.add(now, *v);
}

void Device::count(NvmlApi& nvml, NvmlField field, SampledCounter& counter) {
  const auto v = get(nvml, field);
  if (!v || *v < 0) return;
  counter.last = static_cast<uint64_t>(*v);
  if (!counter.first) counter.first = counter.last;
}

bool Device::sample(NvmlApi& nvml, uint64_t now_ns) {
  const auto now = static_cast<int64_t>(now_ns);
  add(nvml, NvmlField::kUtilization, utilization_, now);
  add(nvml, NvmlField::kMemoryUtilization, memory_utilization_, now);
  add(nvml, NvmlField::kMemoryUsed, memory_used_, now);
  add(nvml, NvmlField::kTemperature, temperature_, now);
  add(nvml, NvmlField::kPower, power_, now);
  sample_clocks(nvml, now);
  sample_activity(nvml, now);
  const bool slow = samples_ % kSlowEvery == 0;
  if (slow) {
    add(nvml, NvmlField::kMemoryTemperature, memory_temperature_, now);
    sample_slow(nvml);
  }
  ++samples_;
  return slow;
}

void Device::sample_clocks(NvmlApi& nvml, int64_t now) {
  add(nvml, NvmlField::kSmClock, sm_clock_, now);
  const auto reasons = get(nvml, NvmlField::kClockReasons);
  if (!reasons || *reasons < 0) return;
  const auto bits = static_cast<uint64_t>(*reasons);
  facts_.clock_reasons_seen |= bits;
  thermal_.add(now, bits & kThermalBits ? 1 : 0);
  power_cap_.add(now, bits & kClockSwPowerCap ? 1 : 0);
}

void Device::sample_activity(NvmlApi& nvml, int64_t now) {
  if (activity_failed_) return;
  const auto a = nvml.activity(number_);
  if (!a) {
    if (a.error().message == "first reading") return;
    activity_failed_ = true;
    return missing("SM, tensor and DRAM activity", a.error().message);
  }
  // Readings that the hardware could not complete come as NaN or beyond the range.
  const auto put = [&](Series& s, double v) {
    if (v >= 0 && v <= 1.5) s.add(now, std::min(v, 1.0));
  };
  put(sm_active_, a->sm_share);
  put(tensor_active_, a->tensor_share);
  put(dram_active_, a->dram_share);
}

void Device::sample_slow(NvmlApi& nvml) {
  facts_.power_limit_w = get(nvml, NvmlField::kPowerLimit);
  count(nvml, NvmlField::kEccCorrected, facts_.ecc_corrected);
  count(nvml, NvmlField::kEccUncorrected, facts_.ecc_uncorrected);
  count(nvml, NvmlField::kPcieReplays, facts_.pcie_replays);
  count(nvml, NvmlField::kNvlinkErrors, facts_.nvlink_errors);
  facts_.remapped_rows_pending = whole(get(nvml, NvmlField::kRemappedPending));
  facts_.nvlinks_active = whole(get(nvml, NvmlField::kNvlinksActive));
  if (facts_.nvlinks_active) {
    facts_.nvlinks_expected = std::max(facts_.nvlinks_expected.value_or(0), *facts_.nvlinks_active);
  }
  facts_.pcie_width = whole(get(nvml, NvmlField::kPcieWidth));
  facts_.pcie_width_max = whole(get(nvml, NvmlField::kPcieWidthMax));
  facts_.pcie_generation = whole(get(nvml, NvmlField::kPcieGeneration));
  facts_.pcie_generation_max = whole(get(nvml, NvmlField::kPcieGenerationMax));
  if (processes_failed_) return;
  const auto list = nvml.processes(number_);
  if (!list) {
    processes_failed_ = true;
    return missing("device processes", list.error().message);
  }
  facts_.processes.clear();
  for (const NvmlProcess& p : *list) {
    facts_.processes.push_back({static_cast<int>(p.pid), static_cast<double>(p.memory_bytes), -1});
  }
}

void Device::note_xid(uint64_t now_ns, uint64_t code) {
  if (facts_.xids.size() < kMaxXids) facts_.xids.push_back({static_cast<int64_t>(now_ns), code});
}

DeviceFacts Device::facts() const {
  DeviceFacts out = facts_;
  out.utilization_share = utilization_.facts();
  out.memory_utilization_share = memory_utilization_.facts();
  out.memory_used_bytes = memory_used_.facts();
  out.temperature_c = temperature_.facts();
  out.memory_temperature_c = memory_temperature_.facts();
  out.power_w = power_.facts();
  out.sm_clock_mhz = sm_clock_.facts();
  out.thermal_throttle_share = thermal_.facts();
  out.power_cap_share = power_cap_.facts();
  out.sm_active_share = sm_active_.facts();
  out.tensor_active_share = tensor_active_.facts();
  out.dram_active_share = dram_active_.facts();
  return out;
}

}  // namespace stepscope
