// Declarations of NVML's C ABI by hand, as far as used: no NVIDIA header is needed to build, no library to link.
// Layouts are asserted; they are those of NVML 11.0 and newer.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stepscope::nvml {

using Return = int;
using Device = void*;
using EventSet = void*;
using GpmSample = void*;

enum : Return {
  kSuccess = 0,
  kUninitialized = 1,
  kInvalidArgument = 2,
  kNotSupported = 3,
  kNoPermission = 4,
  kNotFound = 6,
  kInsufficientSize = 7,
  kTimeout = 10,
  kGpuLost = 15,
};
// GPUs are attached when their handle is fetched. (The flag that says so, 2, hides them altogether.)
inline constexpr unsigned kInitDefault = 0;

struct Utilization {
  unsigned gpu, memory;
};
struct Memory {
  unsigned long long total, free, used;
};
struct PciInfo {
  char legacy_bus_id[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};
struct ProcessInfo {  // _v2 and _v3
  unsigned pid;
  unsigned long long used_memory;
  unsigned gpu_instance, compute_instance;
};
struct FieldValue {
  unsigned field, scope;
  long long timestamp, latency_us;
  unsigned value_type;
  Return result;
  union {
    double d;
    unsigned u32;
    unsigned long ul;
    unsigned long long u64;
    long long s64;
    int s32;
    unsigned short u16;
  } value;
};
struct EventData {
  Device device;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
};
struct GpmMetric {
  unsigned id;
  Return result;
  double value;
  char *short_name, *long_name, *unit;
};
inline constexpr unsigned kMaxGpmMetrics = 512;  // the library only writes as many as asked for
struct GpmMetrics {
  unsigned version, count;
  GpmSample sample1, sample2;
  GpmMetric metrics[kMaxGpmMetrics];
};
struct GpmSupport {
  unsigned version, supported;
};

static_assert(sizeof(PciInfo) == 68);
static_assert(sizeof(ProcessInfo) == 24);
static_assert(sizeof(FieldValue) == 40);
static_assert(sizeof(EventData) == 32);
static_assert(sizeof(GpmMetric) == 40 && offsetof(GpmMetrics, metrics) == 24);

// member name, symbol, parameters
// clang-format off
#define STEPSCOPE_NVML_FUNCTIONS(X)                                                           \
  X(init_with_flags, nvmlInitWithFlags, (unsigned))                                           \
  X(shutdown, nvmlShutdown, ())                                                               \
  X(device_count, nvmlDeviceGetCount_v2, (unsigned*))                                         \
  X(device_by_index, nvmlDeviceGetHandleByIndex_v2, (unsigned, Device*))                      \
  X(device_name, nvmlDeviceGetName, (Device, char*, unsigned))                                \
  X(device_uuid, nvmlDeviceGetUUID, (Device, char*, unsigned))                                \
  X(pci_info, nvmlDeviceGetPciInfo_v3, (Device, PciInfo*))                                    \
  X(utilization, nvmlDeviceGetUtilizationRates, (Device, Utilization*))                       \
  X(memory_info, nvmlDeviceGetMemoryInfo, (Device, Memory*))                                  \
  X(temperature, nvmlDeviceGetTemperature, (Device, unsigned, unsigned*))                     \
  X(temperature_threshold, nvmlDeviceGetTemperatureThreshold, (Device, unsigned, unsigned*))  \
  X(power_usage, nvmlDeviceGetPowerUsage, (Device, unsigned*))                                \
  X(power_limit, nvmlDeviceGetEnforcedPowerLimit, (Device, unsigned*))                        \
  X(clock, nvmlDeviceGetClockInfo, (Device, unsigned, unsigned*))                             \
  X(max_clock, nvmlDeviceGetMaxClockInfo, (Device, unsigned, unsigned*))                      \
  X(event_reasons, nvmlDeviceGetCurrentClocksEventReasons, (Device, unsigned long long*))     \
  X(throttle_reasons, nvmlDeviceGetCurrentClocksThrottleReasons, (Device, unsigned long long*)) \
  X(ecc_errors, nvmlDeviceGetTotalEccErrors, (Device, unsigned, unsigned, unsigned long long*)) \
  X(remapped_rows, nvmlDeviceGetRemappedRows, (Device, unsigned*, unsigned*, unsigned*, unsigned*)) \
  X(pcie_replay, nvmlDeviceGetPcieReplayCounter, (Device, unsigned*))                         \
  X(pcie_width, nvmlDeviceGetCurrPcieLinkWidth, (Device, unsigned*))                          \
  X(pcie_width_max, nvmlDeviceGetMaxPcieLinkWidth, (Device, unsigned*))                       \
  X(pcie_generation, nvmlDeviceGetCurrPcieLinkGeneration, (Device, unsigned*))                \
  X(pcie_generation_max, nvmlDeviceGetMaxPcieLinkGeneration, (Device, unsigned*))             \
  X(nvlink_state, nvmlDeviceGetNvLinkState, (Device, unsigned, unsigned*))                    \
  X(field_values, nvmlDeviceGetFieldValues, (Device, int, FieldValue*))                       \
  X(processes_v3, nvmlDeviceGetComputeRunningProcesses_v3, (Device, unsigned*, ProcessInfo*)) \
  X(processes_v2, nvmlDeviceGetComputeRunningProcesses_v2, (Device, unsigned*, ProcessInfo*)) \
  X(mig_mode, nvmlDeviceGetMigMode, (Device, unsigned*, unsigned*))                           \
  X(mig_count_max, nvmlDeviceGetMaxMigDeviceCount, (Device, unsigned*))                       \
  X(mig_by_index, nvmlDeviceGetMigDeviceHandleByIndex, (Device, unsigned, Device*))           \
  X(event_set_create, nvmlEventSetCreate, (EventSet*))                                        \
  X(event_register, nvmlDeviceRegisterEvents, (Device, unsigned long long, EventSet))         \
  X(event_wait, nvmlEventSetWait_v2, (EventSet, EventData*, unsigned))                        \
  X(event_set_free, nvmlEventSetFree, (EventSet))                                             \
  X(gpm_support, nvmlGpmQueryDeviceSupport, (Device, GpmSupport*))                            \
  X(gpm_sample_alloc, nvmlGpmSampleAlloc, (GpmSample*))                                       \
  X(gpm_sample_free, nvmlGpmSampleFree, (GpmSample))                                          \
  X(gpm_sample_get, nvmlGpmSampleGet, (Device, GpmSample))                                    \
  X(gpm_metrics_get, nvmlGpmMetricsGet, (GpmMetrics*))
// clang-format on

struct Functions {
#define X(member, symbol, parameters) Return(*member) parameters = nullptr;
  STEPSCOPE_NVML_FUNCTIONS(X)
#undef X
  const char* (*error_string)(Return) = nullptr;
};

}  // namespace stepscope::nvml
