// Named thresholds of the rules. Defaults and reasons: spec/rules.toml (a test checks that both agree).
#pragma once

#include <map>
#include <string>

#include "base/result.h"

namespace stepscope {

#define STEPSCOPE_THRESHOLDS(X)      \
  X(warmup_steps, 5)                 \
  X(min_steps, 8)                    \
  X(warn_share, 0.05)                \
  X(crit_share, 0.20)                \
  X(share_kind_warn, 0.10)           \
  X(share_kind_crit, 0.20)           \
  X(wait_heavy_min_ms, 0.5)          \
  X(input_ahead_share, 0.5)          \
  X(input_head_of_line_share, 0.4)   \
  X(host_bound_share, 0.5)           \
  X(sync_steps_share, 0.5)           \
  X(launch_bound_share, 0.6)         \
  X(comm_bound_warn, 0.30)           \
  X(comm_bound_crit, 0.60)           \
  X(compute_bound_share, 0.70)       \
  X(straggler_min_z, 4.0)            \
  X(straggler_min_positive, 0.7)     \
  X(straggler_min_blame, 0.5)        \
  X(straggler_min_excess, 0.03)      \
  X(imbalance_min_correlation, 0.6)  \
  X(straggler_block_steps, 32)       \
  X(straggler_live_steps, 16)        \
  X(straggler_passing_s, 10)         \
  X(phase_share, 0.55)               \
  X(pause_min_repeats, 3)            \
  X(pause_min_ms, 20.0)              \
  X(pause_factor, 5.0)               \
  X(lossy_share, 0.01)               \
  X(min_coverage, 0.8)               \
  X(extra_collectives_min, 8)        \
  X(extra_collectives_bytes, 4096)   \
  X(advice_input_share, 0.05)      \
  X(advice_h2d_share, 0.02)        \
  X(advice_epoch_start_share, 0.02) \
  X(advice_min_epochs, 2)          \
  X(advice_unused_steps, 8)        \
  X(advice_bucket_mib, 5)          \
  X(advice_fsdp_min_parameters, 1e6) \
  X(advice_fsdp_root_share, 0.5)   \
  X(advice_fsdp_many_units, 100)   \
  X(advice_fsdp_tiny_parameters, 1e6) \
  X(advice_offload_idle_share, 0.5)  \
  X(device_memory_near_share, 0.92)  \
  X(device_memory_at_share, 0.97)    \
  X(device_memory_uneven_share, 0.20)      \
  X(device_memory_uneven_min_share, 0.30)  \
  X(device_creep_warmup_steps, 10)   \
  X(device_creep_early_steps, 24)    \
  X(device_creep_min_steps, 80)      \
  X(device_creep_window_steps, 160)  \
  X(device_creep_early_bytes, 16777216)    \
  X(device_creep_min_bytes, 67108864)      \
  X(device_creep_linearity, 0.15)    \
  X(device_creep_new_high_share, 0.50)     \
  X(device_creep_eta_crit_s, 1800)   \
  X(length_min_correlation, 0.90)    \
  X(length_min_range_share, 0.10)    \
  X(fragment_min_share, 0.25)        \
  X(fragment_min_device_share, 0.10) \
  X(overhang_factor, 2.0)            \
  X(overhang_min_device_share, 0.30) \
  X(thrash_min_steps, 3)             \
  X(flush_steps_share, 0.50)

struct Thresholds {
#define X(name, value) double name = value;
  STEPSCOPE_THRESHOLDS(X)
#undef X

  // Sets one by name; fails with one line on an unknown name.
  Status set(const std::string& name, double value);
  std::map<std::string, double> values() const;
};

}  // namespace stepscope
