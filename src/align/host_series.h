// Every series of the host facts under the name that it has in the run file: scope (host, rank, worker, device), number
// (-1 for the host) and name with its unit. Pure.
#pragma once

#include "align/host_facts.h"

namespace stepscope {

// `see`: void(const char* scope, int idx, const char* name, const SampledSeries&)
template <class See>
void for_each_series(const HostFacts& facts, See see) {
  const HostSeries& host = facts.host;
  see("host", -1, "cpu_share", host.cpu_share);
  see("host", -1, "memory_available_bytes", host.memory_available_bytes);
  see("host", -1, "cpu_pressure_share", host.cpu_pressure_share);
  see("host", -1, "memory_pressure_share", host.memory_pressure_share);
  see("host", -1, "io_pressure_share", host.io_pressure_share);
  for (const RankProcess& rank : facts.ranks) {
    see("rank", rank.rank, "cpu_cores", rank.cpu_cores);
    see("rank", rank.rank, "rss_bytes", rank.rss_bytes);
    see("rank", rank.rank, "uss_bytes", rank.uss_bytes);
    see("rank", rank.rank, "run_delay_share", rank.run_delay_share);
    see("worker", rank.rank, "cpu_cores", rank.worker_cpu_cores);
    see("worker", rank.rank, "rss_bytes", rank.worker_rss_bytes);
  }
  for (size_t i = 0; i < facts.devices.size(); ++i) {
    const DeviceFacts& device = facts.devices[i];
    const int idx = static_cast<int>(i);
    see("device", idx, "utilization_share", device.utilization_share);
    see("device", idx, "memory_used_bytes", device.memory_used_bytes);
    see("device", idx, "power_w", device.power_w);
    see("device", idx, "temperature_c", device.temperature_c);
    see("device", idx, "sm_clock_mhz", device.sm_clock_mhz);
  }
}

}  // namespace stepscope
