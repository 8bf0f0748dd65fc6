#include "store/fact_series.h"

namespace stepscope {
namespace {

template <class Owner>
struct Field {
  const char* name;
  SampledSeries Owner::* series;
};

#define SS_FIELD(owner, field) {#field, &owner::field}

constexpr Field<HostSeries> kHost[] = {SS_FIELD(HostSeries, cpu_share),
                                       SS_FIELD(HostSeries, cpu_max_core_share),
                                       SS_FIELD(HostSeries, iowait_share),
                                       SS_FIELD(HostSeries, steal_share),
                                       SS_FIELD(HostSeries, load1),
                                       SS_FIELD(HostSeries, context_switches_per_s),
                                       SS_FIELD(HostSeries, page_faults_per_s),
                                       SS_FIELD(HostSeries, major_faults_per_s),
                                       SS_FIELD(HostSeries, memory_available_bytes),
                                       SS_FIELD(HostSeries, swap_used_bytes),
                                       SS_FIELD(HostSeries, swap_in_bytes_per_s),
                                       SS_FIELD(HostSeries, swap_out_bytes_per_s),
                                       SS_FIELD(HostSeries, cpu_pressure_share),
                                       SS_FIELD(HostSeries, memory_pressure_share),
                                       SS_FIELD(HostSeries, memory_full_pressure_share),
                                       SS_FIELD(HostSeries, io_pressure_share),
                                       SS_FIELD(HostSeries, io_full_pressure_share)};

constexpr Field<CgroupFacts> kCgroup[] = {SS_FIELD(CgroupFacts, memory_used_bytes),
                                          SS_FIELD(CgroupFacts, throttled_period_share),
                                          SS_FIELD(CgroupFacts, throttled_ms_per_s)};

constexpr Field<RankProcess> kRank[] = {SS_FIELD(RankProcess, steps),
                                        SS_FIELD(RankProcess, cpu_cores),
                                        SS_FIELD(RankProcess, threads),
                                        SS_FIELD(RankProcess, rss_bytes),
                                        SS_FIELD(RankProcess, anon_bytes),
                                        SS_FIELD(RankProcess, file_bytes),
                                        SS_FIELD(RankProcess, shmem_bytes),
                                        SS_FIELD(RankProcess, held_bytes),
                                        SS_FIELD(RankProcess, uss_bytes),
                                        SS_FIELD(RankProcess, pss_bytes),
                                        SS_FIELD(RankProcess, run_delay_share),
                                        SS_FIELD(RankProcess, voluntary_switches_per_s),
                                        SS_FIELD(RankProcess, involuntary_switches_per_s),
                                        SS_FIELD(RankProcess, uninterruptible_share),
                                        SS_FIELD(RankProcess, major_faults_per_s),
                                        SS_FIELD(RankProcess, read_bytes_per_s),
                                        SS_FIELD(RankProcess, rchar_per_s),
                                        SS_FIELD(RankProcess, write_bytes_per_s)};

constexpr Field<RankProcess> kWorker[] = {{"workers", &RankProcess::workers},
                                          {"cpu_cores", &RankProcess::worker_cpu_cores},
                                          {"rss_bytes", &RankProcess::worker_rss_bytes},
                                          {"held_bytes", &RankProcess::worker_held_bytes},
                                          {"run_delay_share", &RankProcess::worker_run_delay_share},
                                          {"uninterruptible_share", &RankProcess::worker_uninterruptible_share},
                                          {"read_bytes_per_s", &RankProcess::worker_read_bytes_per_s},
                                          {"rchar_per_s", &RankProcess::worker_rchar_per_s},
                                          {"uss_bytes", &RankProcess::worker_uss_bytes},
                                          {"pss_bytes", &RankProcess::worker_pss_bytes}};

constexpr Field<DeviceFacts> kDevice[] = {
    SS_FIELD(DeviceFacts, utilization_share),    SS_FIELD(DeviceFacts, memory_utilization_share),
    SS_FIELD(DeviceFacts, memory_used_bytes),    SS_FIELD(DeviceFacts, temperature_c),
    SS_FIELD(DeviceFacts, memory_temperature_c), SS_FIELD(DeviceFacts, power_w),
    SS_FIELD(DeviceFacts, sm_clock_mhz),         SS_FIELD(DeviceFacts, thermal_throttle_share),
    SS_FIELD(DeviceFacts, power_cap_share),      SS_FIELD(DeviceFacts, sm_active_share),
    SS_FIELD(DeviceFacts, tensor_active_share),  SS_FIELD(DeviceFacts, dram_active_share)};

#undef SS_FIELD

template <class Owner, size_t N>
void each(const Owner& owner, const Field<Owner> (&fields)[N], const char* scope, int32_t idx,
          const std::function<void(const SeriesKey&, const SampledSeries&)>& take) {
  for (const Field<Owner>& field : fields)
    if (!(owner.*field.series).empty()) take({scope, idx, field.name}, owner.*field.series);
}

}  // namespace

void for_each_series(const HostFacts& facts, const std::function<void(const SeriesKey&, const SampledSeries&)>& take) {
  each(facts.host, kHost, "host", -1, take);
  for (size_t i = 0; i < facts.cgroups.size(); ++i)
    each(facts.cgroups[i], kCgroup, "cgroup", static_cast<int32_t>(i), take);
  for (const RankProcess& rank : facts.ranks) {
    each(rank, kRank, "rank", rank.rank, take);
    each(rank, kWorker, "worker", rank.rank, take);
  }
  for (const DeviceFacts& device : facts.devices) each(device, kDevice, "device", device.index, take);
}

void FactFeeder::feed(const HostFacts& facts, RunWriter& writer) {
  for_each_series(facts, [&](const SeriesKey& key, const SampledSeries& series) {
    uint64_t& seen = seen_[key];
    if (series.count == seen) return;
    seen = series.count;
    // The newest point may be the mean of several; its value alone is `last`, its time that of the newest sample.
    const int64_t time_ns = facts.last_ns ? facts.last_ns : series.points.empty() ? 0 : series.points.back().time_ns;
    writer.add_sample(key, time_ns, series.last);
  });
}

}  // namespace stepscope
