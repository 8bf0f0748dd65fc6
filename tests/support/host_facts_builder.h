// Builds HostFacts for tests: one sample a second, values given as functions of the second.
#pragma once

#include <algorithm>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>

#include "align/host_facts.h"

namespace stepscope::testing {

inline constexpr int64_t kSecondNs = 1'000'000'000;

inline void put(SampledSeries& s, int64_t time_ns, double value) {
  s.points.push_back({time_ns, value});
  s.min = s.count ? std::min(s.min, value) : value;
  s.max = s.count ? std::max(s.max, value) : value;
  ++s.count;
  s.mean += (value - s.mean) / static_cast<double>(s.count);
  s.last = value;
}

using At = std::function<double(double)>;  // of the second

inline SampledSeries series(int seconds, const At& value) {
  SampledSeries s;
  for (int i = 0; i < seconds; ++i) put(s, (100 + i) * kSecondNs, value(i));
  return s;
}
inline SampledSeries flat(int seconds, double value) {
  return series(seconds, [value](double) { return value; });
}

// A healthy node of 8 cores with `ranks` ranks that step `steps_per_s` times a second from the third second on.
inline HostFacts healthy(int ranks = 2, int seconds = 120, double steps_per_s = 5) {
  HostFacts f;
  f.hostname = "node0";
  f.cores = 8;
  f.memory_total_bytes = 64e9;
  f.first_ns = 100 * kSecondNs;
  f.last_ns = (100 + seconds - 1) * kSecondNs;
  f.samples = static_cast<uint64_t>(seconds);
  f.host.cpu_share = flat(seconds, 0.4);
  f.host.memory_available_bytes = flat(seconds, 48e9);
  f.host.memory_full_pressure_share = flat(seconds, 0);
  f.host.swap_in_bytes_per_s = f.host.swap_out_bytes_per_s = flat(seconds, 0);
  f.host.load1 = flat(seconds, 3);
  for (int r = 0; r < ranks; ++r) {
    RankProcess& p = f.ranks.emplace_back();
    p.rank = r;
    p.pid = 1000 + r;
    p.alive = true;
    p.affinity_cores = 8;
    if (steps_per_s > 0) {
      p.steps = series(seconds, [=](double s) { return std::max(0.0, (s - 2) * steps_per_s); });
      p.steps_per_s = steps_per_s;
    }
    p.held_bytes = flat(seconds, 500e6);
    p.rss_bytes = flat(seconds, 800e6);
    p.run_delay_share = flat(seconds, 0.03);
    p.involuntary_switches_per_s = flat(seconds, 20);
    p.cpu_cores = flat(seconds, 1);
    p.workers = flat(seconds, 0);
  }
  return f;
}

// A device of `name` used by one rank, busy and well.
inline DeviceFacts device(int index, int rank, int seconds = 120) {
  DeviceFacts d;
  d.index = index;
  d.name = "Fake H100";
  d.ranks = {rank};
  d.memory_total_bytes = 80e9;
  d.sm_clock_max_mhz = 1980;
  d.temperature_slowdown_c = 92;
  d.utilization_share = flat(seconds, 0.95);
  d.temperature_c = flat(seconds, 60);
  d.power_w = flat(seconds, 500);
  d.sm_clock_mhz = flat(seconds, 1700);
  d.thermal_throttle_share = flat(seconds, 0);
  d.power_cap_share = flat(seconds, 0);
  d.pcie_width = d.pcie_width_max = 16;
  d.nvlinks_active = d.nvlinks_expected = 18;
  return d;
}

// The facts of a recorded job: tests/data/host/<name>.csv.
inline HostFacts recorded(const std::string& name) {
  HostFacts f;
  f.cores = 2;
  std::ifstream in(std::string(SS_SOURCE_DIR) + "/tests/data/host/" + name + ".csv");
  std::string line;
  std::getline(in, line);
  while (std::getline(in, line)) {
    std::replace(line.begin(), line.end(), ',', ' ');
    std::istringstream row(line);
    std::string what;
    int rank = 0;
    double seconds = 0, value = 0;
    row >> what >> rank >> seconds >> value;
    const auto time = static_cast<int64_t>(seconds * 1e9);
    f.last_ns = std::max(f.last_ns, time);
    if (rank < 0) {
      put(f.host.cpu_share, time, value);
      continue;
    }
    while (static_cast<int>(f.ranks.size()) <= rank) {
      const auto next = static_cast<int>(f.ranks.size());
      f.ranks.emplace_back().rank = next;
    }
    RankProcess& p = f.ranks[static_cast<size_t>(rank)];
    put(what == "steps" ? p.steps : what == "held_bytes" ? p.held_bytes : p.run_delay_share, time, value);
  }
  return f;
}

}  // namespace stepscope::testing
