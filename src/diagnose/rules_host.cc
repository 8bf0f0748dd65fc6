#include "diagnose/rules_host.h"

#include <algorithm>
#include <cmath>

#include "analyze/robust.h"
#include "base/text_format.h"
#include "diagnose/rule.h"

namespace stepscope {
namespace {

using Values = std::map<std::string, std::optional<double>>;

bool worse(const Finding& a, const Finding& b) {
  if (a.severity != b.severity) return a.severity > b.severity;
  return a.cost_share > b.cost_share;
}

Section section_of(const char* name, const std::vector<Finding>& findings, bool measured, Values values) {
  Section s;
  s.name = name;
  s.values = std::move(values);
  const Finding* lead = nullptr;
  for (const Finding& f : findings) {
    if (f.section.text() == name && (!lead || worse(f, *lead))) lead = &f;
  }
  if (lead) {
    s.diagnosis = lead->kind;
    s.severity = lead->severity;
    s.text = lead->title;
  } else {
    s.diagnosis = measured ? FindingKind::kBalanced : FindingKind::kNoData;
    s.text = measured ? "Nothing stands out" : "Not sampled";
  }
  return s;
}

// Over series of several ranks or devices; null when none has a sample.
template <class Items, class Get>
std::optional<double> over(const Items& items, Get get, bool largest) {
  std::optional<double> best;
  double sum = 0;
  int n = 0;
  for (const auto& item : items) {
    const std::optional<double> v = get(item);
    if (!v) continue;
    sum += *v;
    ++n;
    best = best ? std::max(*best, *v) : *v;
  }
  if (n == 0) return std::nullopt;
  return largest ? *best : sum / n;
}

void device_values(const std::vector<DeviceFacts>& devices, Values& v) {
  const auto mean_of = [&](SampledSeries DeviceFacts::* s) {
    return over(devices, [s](const DeviceFacts& d) { return (d.*s).mean_or_null(); }, false);
  };
  const auto max_of = [&](SampledSeries DeviceFacts::* s) {
    return over(devices, [s](const DeviceFacts& d) { return (d.*s).max_or_null(); }, true);
  };
  v["gpu_utilization_share"] = mean_of(&DeviceFacts::utilization_share);
  v["gpu_memory_peak_bytes"] = max_of(&DeviceFacts::memory_used_bytes);
  v["gpu_memory_total_bytes"] = over(devices, [](const DeviceFacts& d) { return d.memory_total_bytes; }, true);
  v["gpu_temperature_max_c"] = max_of(&DeviceFacts::temperature_c);
  v["gpu_power_mean_w"] = mean_of(&DeviceFacts::power_w);
  v["gpu_power_limit_w"] = over(devices, [](const DeviceFacts& d) { return d.power_limit_w; }, true);
  v["gpu_sm_clock_mean_mhz"] = mean_of(&DeviceFacts::sm_clock_mhz);
  v["gpu_sm_active_share"] = mean_of(&DeviceFacts::sm_active_share);
  v["gpu_tensor_active_share"] = mean_of(&DeviceFacts::tensor_active_share);
  v["gpu_dram_active_share"] = mean_of(&DeviceFacts::dram_active_share);
}

}  // namespace

std::vector<Finding> judge_host(const HostFacts& facts, const HostThresholds& thresholds) {
  RuleInput in;
  in.host = &facts;
  in.host_limits = &thresholds;
  std::vector<Finding> out = ask(kHost, in);
  std::stable_sort(out.begin(), out.end(), worse);
  return out;
}

Section system_section(const HostFacts& facts, const std::vector<Finding>& findings) {
  const HostSeries& h = facts.host;
  Values v;
  v["cpu_share"] = h.cpu_share.mean_or_null();
  v["cpu_peak_share"] = h.cpu_share.max_or_null();
  v["cores"] = facts.cores > 0 ? std::optional<double>(facts.cores) : std::nullopt;
  v["load1"] = h.load1.last_or_null();
  v["memory_total_bytes"] = facts.memory_total_bytes;
  v["memory_available_min_bytes"] = h.memory_available_bytes.min_or_null();
  if (facts.memory_total_bytes && !h.memory_available_bytes.empty() && *facts.memory_total_bytes > 0) {
    v["memory_used_peak_share"] = 1 - h.memory_available_bytes.min / *facts.memory_total_bytes;
  } else {
    v["memory_used_peak_share"] = std::nullopt;
  }
  v["swap_used_peak_bytes"] = h.swap_used_bytes.max_or_null();
  v["cpu_pressure_share"] = h.cpu_pressure_share.mean_or_null();
  v["memory_pressure_share"] = h.memory_pressure_share.mean_or_null();
  v["io_pressure_share"] = h.io_pressure_share.mean_or_null();
  v["gpus"] = static_cast<double>(facts.devices.size());
  if (!facts.devices.empty()) device_values(facts.devices, v);
  return section_of("system", findings, !h.cpu_share.empty() || !h.memory_available_bytes.empty(), std::move(v));
}

Section process_section(const HostFacts& facts, const std::vector<Finding>& findings) {
  const auto mean_of = [&](SampledSeries RankProcess::* s) {
    return over(facts.ranks, [s](const RankProcess& r) { return (r.*s).mean_or_null(); }, false);
  };
  const auto max_of = [&](SampledSeries RankProcess::* s) {
    return over(facts.ranks, [s](const RankProcess& r) { return (r.*s).max_or_null(); }, true);
  };
  Values v;
  v["cpu_cores"] = mean_of(&RankProcess::cpu_cores);
  v["rss_peak_bytes"] = max_of(&RankProcess::rss_bytes);
  v["uss_peak_bytes"] = max_of(&RankProcess::uss_bytes);
  v["pss_peak_bytes"] = max_of(&RankProcess::pss_bytes);
  v["threads_max"] = max_of(&RankProcess::threads);
  v["run_delay_share"] = mean_of(&RankProcess::run_delay_share);
  v["run_delay_worst_share"] =
      over(facts.ranks, [](const RankProcess& r) { return r.run_delay_share.mean_or_null(); }, true);
  v["read_bytes_per_s"] = mean_of(&RankProcess::read_bytes_per_s);
  v["workers_max"] = max_of(&RankProcess::workers);
  v["worker_cpu_cores"] = mean_of(&RankProcess::worker_cpu_cores);
  v["worker_uss_peak_bytes"] = max_of(&RankProcess::worker_uss_bytes);
  const bool measured =
      std::any_of(facts.ranks.begin(), facts.ranks.end(), [](const RankProcess& r) { return !r.rss_bytes.empty(); });
  return section_of("process", findings, measured, std::move(v));
}

}  // namespace stepscope
