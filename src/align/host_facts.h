// What was sampled from outside the ranks of one node: host, cgroups, process trees, devices. Plain values: the sampler
// fills them, the agent may send them to another node, diagnose/rules_host.h judges them. Not measured is an empty
// series or nullopt (with a reason in `unavailable`), never 0. Times are CLOCK_MONOTONIC of the node.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace stepscope {

struct SamplePoint {
  int64_t time_ns = 0;
  double value = 0;
};

// A bounded series: points in time order (long runs are thinned to means of equal numbers of samples); the figures
// cover every sample ever taken.
struct SampledSeries {
  std::vector<SamplePoint> points;
  uint64_t count = 0;
  double last = 0, mean = 0, min = 0, max = 0;  // of all samples; meaningless while count == 0

  bool empty() const { return count == 0; }
  std::optional<double> mean_or_null() const { return count ? std::optional(mean) : std::nullopt; }
  std::optional<double> max_or_null() const { return count ? std::optional(max) : std::nullopt; }
  std::optional<double> min_or_null() const { return count ? std::optional(min) : std::nullopt; }
  std::optional<double> last_or_null() const { return count ? std::optional(last) : std::nullopt; }
};

// A counter that only grows, read from outside: its value when first and when last seen.
struct SampledCounter {
  std::optional<uint64_t> first, last;
  uint64_t delta() const { return first && last && *last > *first ? *last - *first : 0; }
};

// Shares are 0..1 of the time between two samples.
struct HostSeries {
  SampledSeries cpu_share;           // busy, of all cores together (iowait and steal are not busy)
  SampledSeries cpu_max_core_share;  // of the busiest core
  SampledSeries iowait_share, steal_share;
  SampledSeries load1;  // runnable and uninterruptible tasks, 1 min
  SampledSeries context_switches_per_s, page_faults_per_s, major_faults_per_s;
  SampledSeries memory_available_bytes, swap_used_bytes, swap_in_bytes_per_s, swap_out_bytes_per_s;
  SampledSeries cpu_pressure_share;                                 // PSI "some": some task waited for a core
  SampledSeries memory_pressure_share, memory_full_pressure_share;  // PSI "some" and "full"
  SampledSeries io_pressure_share, io_full_pressure_share;
};

struct CgroupFacts {
  std::string path;                          // of the memory controller (v1) or the unified hierarchy
  int version = 0;                           // 1 or 2
  std::optional<double> memory_limit_bytes;  // the tightest of it and its ancestors; null = none
  std::optional<double> cpu_limit_cores;     // likewise
  std::optional<double> cpuset_cores;
  SampledSeries memory_used_bytes;       // without reclaimable file cache (usage - inactive_file)
  SampledSeries throttled_period_share;  // of the scheduler periods in which the group ran
  SampledSeries throttled_ms_per_s;
  SampledCounter oom_kills;
};

// The loader workers that a rank has now (or had, when their private memory had grown most): sums over those that were
// forked without exec and whose memory maps were read at least twice, at their first and newest reading. Un-shared
// pages show as USS up, RSS flat, shared anonymous memory down.
struct WorkerGrowth {
  int workers = 0;
  double uss_first_bytes = 0, uss_last_bytes = 0;
  double rss_first_bytes = 0, rss_last_bytes = 0;
  double shared_anon_first_bytes = 0, shared_anon_last_bytes = 0;
  double seconds = 0;  // longest distance between the two readings
};

// One rank's process ("rank_") and the rest of its process tree ("worker_": loader workers and other descendants).
struct RankProcess {
  int rank = -1;
  int pid = 0;
  bool alive = false;
  int cgroup = -1;                    // index into HostFacts::cgroups
  std::optional<int> affinity_cores;  // cores the main thread may use
  std::string state;                  // newest: R, S, D, …
  std::string wait_channel;           // newest kernel function it sleeps in, "" = running or not readable
  std::vector<int> devices;           // indices into HostFacts::devices

  SampledSeries steps;                // completed steps when the memory samples were taken; same points as held_bytes
  std::optional<double> steps_per_s;  // newest rate
  SampledSeries cpu_cores;            // cores used by the whole process
  SampledSeries threads;
  SampledSeries rss_bytes, anon_bytes, file_bytes, shmem_bytes;
  SampledSeries held_bytes;            // anon + shmem + swapped: cannot be dropped, only swapped
  SampledSeries uss_bytes, pss_bytes;  // every 10 to 30 s
  // Main thread: share of time it was runnable without a core, switches.
  SampledSeries run_delay_share, voluntary_switches_per_s, involuntary_switches_per_s;
  SampledSeries uninterruptible_share;  // 1 when sampled in state D, else 0
  SampledSeries major_faults_per_s;
  SampledSeries read_bytes_per_s, rchar_per_s, write_bytes_per_s;  // from storage; through read(); to storage

  SampledSeries workers;                                                // processes in the tree besides the rank
  SampledSeries worker_cpu_cores, worker_rss_bytes, worker_held_bytes;  // sums over them
  SampledSeries worker_run_delay_share, worker_uninterruptible_share;   // means over them
  SampledSeries worker_read_bytes_per_s, worker_rchar_per_s;            // sums
  SampledSeries worker_uss_bytes, worker_pss_bytes;                     // sums, every 10 to 30 s
  uint32_t worker_generations = 0;                                      // how often the set of workers changed
  int64_t workers_since_ns = 0;  // of the present set, or of the last one there was
  WorkerGrowth worker_growth;
};

// Bits of the clock event reasons ("throttle reasons") of NVML.
enum ClockReason : uint64_t {
  kClockIdle = 0x1,
  kClockAppSetting = 0x2,
  kClockSwPowerCap = 0x4,
  kClockHwSlowdown = 0x8,
  kClockSyncBoost = 0x10,
  kClockSwThermal = 0x20,
  kClockHwThermal = 0x40,
  kClockHwPowerBrake = 0x80,
  kClockDisplay = 0x100,
};

struct XidEvent {
  int64_t time_ns = 0;
  uint64_t code = 0;
};

struct DeviceProcess {
  int pid = 0;
  double memory_bytes = 0;
  int rank = -1;  // -1 = not a rank of this run
};

struct DeviceFacts {
  int index = -1;  // NVML index of the GPU (of the parent, for a MIG instance)
  std::string name, uuid, pci_bus;
  bool mig = false;
  std::vector<int> ranks;  // that use it
  std::optional<double> memory_total_bytes, power_limit_w, sm_clock_max_mhz, temperature_slowdown_c;
  SampledSeries utilization_share, memory_utilization_share;
  SampledSeries memory_used_bytes, temperature_c, memory_temperature_c, power_w, sm_clock_mhz;
  SampledSeries thermal_throttle_share;  // 1 while a thermal or hardware slowdown holds the clocks down, else 0
  SampledSeries power_cap_share;         // 1 while the power cap does, else 0
  uint64_t clock_reasons_seen = 0;       // every ClockReason bit ever seen
  SampledCounter ecc_corrected, ecc_uncorrected, pcie_replays, nvlink_errors;
  std::optional<int> remapped_rows_pending;
  std::optional<int> nvlinks_active, nvlinks_expected;  // expected: the most ever seen active
  std::optional<int> pcie_width, pcie_width_max, pcie_generation, pcie_generation_max;
  SampledSeries sm_active_share, tensor_active_share, dram_active_share;  // GPM, Hopper and newer
  std::vector<DeviceProcess> processes;                                   // newest
  std::vector<XidEvent> xids;                                             // bounded, oldest kept
  std::vector<std::string> unavailable;                                   // "field: reason", each once
};

struct HostFacts {
  int node = 0;
  std::string hostname;
  int cores = 0;  // online
  std::optional<double> memory_total_bytes, swap_total_bytes;
  int64_t first_ns = 0, last_ns = 0;  // first and newest sample
  uint64_t samples = 0;
  HostSeries host;
  std::vector<CgroupFacts> cgroups;
  std::vector<RankProcess> ranks;        // by rank; ranks that ended stay
  std::vector<DeviceFacts> devices;      // only those that ranks use
  uint64_t processes_not_followed = 0;   // beyond the bound
  bool more_ranks = false;               // the job has ranks here that another agent follows (srun stepscope run …)
  std::vector<std::string> unavailable;  // "signal: reason", each once
};

// What the kernel's counters say of a process that was killed (sampler/oom_counters.h).
enum class OomKill : uint8_t { kUnknown, kNone, kInGroup, kOnHost };

// A process that has torch loaded without our hooks.
struct UnhookedProcess {
  int pid = 0;
  std::string command;  // as it was started, cut to a line
  std::string reason;   // why the hooks did not come in; never empty
};

}  // namespace stepscope
