// Thresholds of the host rules: table [host] of spec/rules.toml, which gives the reason for each. A test checks that
// both agree. Users set them by name.
#pragma once

#include <map>
#include <string>

#include "base/result.h"

namespace stepscope {

// name, default
#define STEPSCOPE_HOST_THRESHOLDS(X)          \
  X(min_samples, 5)                           \
  X(sustained_share, 0.50)                    \
  X(cost_warn_share, 0.05)                    \
  X(cost_crit_share, 0.20)                    \
  X(cpu_saturated_share, 0.90)                \
  X(other_processes_share, 0.25)              \
  X(run_delay_normal_share, 0.05)             \
  X(run_delay_excess_share, 0.10)             \
  X(run_delay_over_others, 2.0)               \
  X(run_delay_saturated_excess_share, 0.20)   \
  X(run_delay_lead_share, 0.70)               \
  X(throttled_period_share, 0.10)             \
  X(worker_run_delay_share, 0.30)             \
  X(memory_near_limit_share, 0.90)            \
  X(memory_at_limit_share, 0.97)              \
  X(swap_bytes_per_s, 1048576)                \
  X(memory_stall_share, 0.02)                 \
  X(creep_warmup_steps, 50)                   \
  X(creep_min_steps, 100)                     \
  X(creep_warmup_s, 60)                       \
  X(creep_min_s, 120)                         \
  X(creep_min_samples, 6)                     \
  X(creep_min_bytes, 50331648)                \
  X(creep_linearity, 0.15)                    \
  X(creep_new_high_share, 0.50)               \
  X(creep_eta_crit_s, 1800)                   \
  X(stair_min_count, 3)                       \
  X(stair_flat_share, 0.60)                   \
  X(worker_growth_bytes, 67108864)            \
  X(worker_unshared_share, 0.70)              \
  X(gpu_low_utilization_share, 0.30)          \
  X(gpu_moderate_utilization_share, 0.70)     \
  X(gpu_uneven_utilization_share, 0.25)       \
  X(gpu_hot_margin_c, 3)                      \
  X(gpu_hot_c, 85)                            \
  X(gpu_throttled_share, 0.05)                \
  X(gpu_power_limited_share, 0.50)            \
  X(gpu_power_limit_gap_share, 0.05)          \
  X(pcie_replays_per_hour, 60)                \
  X(nvlink_errors, 10)

struct HostThresholds {
#define X(name, value) double name = value;
  STEPSCOPE_HOST_THRESHOLDS(X)
#undef X

  // Sets one by name, with or without the prefix "host."; fails with one line on an unknown name.
  Status set(const std::string& name, double value);
  // The defaults with these overrides; names of other tables are ignored.
  static HostThresholds with(const std::map<std::string, double>& overrides);
  std::map<std::string, double> values() const;
};

}  // namespace stepscope
