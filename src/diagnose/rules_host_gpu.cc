// Device health: LOW_/MODERATE_GPU_UTILIZATION, GPU_UTILIZATION_UNEVEN, GPU_THROTTLED, GPU_HOT, GPU_POWER_LIMITED,
// GPU_ERROR, LINK_DEGRADED. Utilisation is the share of time in which any kernel ran: a hint, never a cost. A cost is
// told only where clocks are measured to be lower than those of the other devices (or than the device's own best).
#include <algorithm>
#include <cmath>

#include "analyze/robust.h"
#include "base/text_format.h"
#include "diagnose/host_view.h"

namespace stepscope::host {
namespace {

struct Used {
  const DeviceFacts* device;
  std::string label;  // "GPU 3"
};

std::vector<Used> used_devices(const HostFacts& facts) {
  std::vector<Used> out;
  for (const DeviceFacts& d : facts.devices) {
    if (!d.ranks.empty()) out.push_back({&d, formatted("{} {}", d.mig ? "MIG instance of GPU" : "GPU", d.index)});
  }
  return out;
}

bool enough(const SampledSeries& s, const HostThresholds& limits) {
  return static_cast<double>(s.count) >= limits.min_samples;
}

Finding about(FindingKind kind, const Used& u, const HostFacts& facts) {
  Finding f = begin(kind, facts);
  f.ranks = u.device->ranks;
  f.clock = "gpu";
  return f;
}

std::string of_ranks(const Used& u) { return formatted("{} ({})", u.label, format_ranks(u.device->ranks)); }

// Clock of the points at which `flag` is set (or not).
std::vector<double> clocks_where(const DeviceFacts& d, const SampledSeries& flag, bool set, const Window& w) {
  std::vector<double> out;
  size_t j = 0;
  for (const SamplePoint& p : d.sm_clock_mhz.points) {
    while (j + 1 < flag.points.size() && flag.points[j].time_ns < p.time_ns) ++j;
    if (flag.points.empty() || !w.holds(p.time_ns)) continue;
    if ((flag.points[j].value > 0.5) == set) out.push_back(p.value);
  }
  return out;
}

// What the clock could be: that of the other devices, else its own best time, else its maximum.
std::optional<double> reference_clock(const Used& u, const std::vector<Used>& all, const SampledSeries& flag,
                                      const Window& w) {
  std::vector<double> others;
  for (const Used& o : all) {
    if (o.device == u.device || o.device->name != u.device->name) continue;
    std::vector<double> v = values_in(o.device->sm_clock_mhz, w);
    if (!v.empty()) others.push_back(median(std::move(v)));
  }
  if (!others.empty()) return median(std::move(others));
  std::vector<double> own = clocks_where(*u.device, flag, false, w);
  if (own.size() >= 3) return median(std::move(own));
  return u.device->sm_clock_max_mhz;
}

void utilization(const std::vector<Used>& used, const HostFacts& facts, const HostThresholds& limits, const Window& w,
                 std::vector<Finding>& out) {
  std::vector<double> means;
  std::vector<const Used*> measured;
  for (const Used& u : used) {
    const std::vector<double> v = values_in(u.device->utilization_share, w);
    if (static_cast<double>(v.size()) < limits.min_samples) continue;
    means.push_back(mean(v));
    measured.push_back(&u);
  }
  if (means.empty()) return;
  const double level = median(means);
  const double coverage = static_cast<double>(means.size()) / static_cast<double>(used.size());
  if (level < limits.gpu_moderate_utilization_share) {
    const bool low = level < limits.gpu_low_utilization_share;
    Finding f = begin(low ? FindingKind::kLowGpuUtilization : FindingKind::kModerateGpuUtilization, facts);
    f.job_scope = true;
    f.clock = "gpu";
    f.coverage = coverage;
    f.title = formatted("GPUs run kernels {} of the time", format_percent(level));
    f.action = "Look at the step-time findings for what the GPUs wait for: input, the host, communication";
    f.evidence.push_back(fact("gpu_utilization_share", level));
    for (size_t i = 0; i < measured.size() && i < 8; ++i) {
      for (int rank : measured[i]->device->ranks) f.evidence.push_back(fact("gpu_utilization_share", means[i], rank));
    }
    out.push_back(std::move(f));
  }
  if (means.size() < 2) return;
  const auto [low, high] = std::minmax_element(means.begin(), means.end());
  if (*high - *low < limits.gpu_uneven_utilization_share) return;
  Finding f = begin(FindingKind::kGpuUtilizationUneven, facts);
  f.job_scope = true;
  f.clock = "gpu";
  f.coverage = coverage;
  const Used &a = *measured[static_cast<size_t>(low - means.begin())],
             &b = *measured[static_cast<size_t>(high - means.begin())];
  f.title = formatted("{} is used {} of the time, {} {}", of_ranks(a), format_percent(*low), of_ranks(b),
                      format_percent(*high));
  f.action = "A rank that waits shows high use while NCCL kernels spin: trust the step-time findings for the culprit";
  f.evidence = {fact("lowest_utilization_share", *low), fact("highest_utilization_share", *high)};
  out.push_back(std::move(f));
}

void throttled(const Used& u, const std::vector<Used>& all, const HostFacts& facts, const HostThresholds& limits,
               const Window& w, std::vector<Finding>& out) {
  const DeviceFacts& d = *u.device;
  const std::vector<double> flags = values_in(d.thermal_throttle_share, w);
  if (static_cast<double>(flags.size()) < limits.min_samples) return;
  const double share = mean(flags);
  if (share < limits.gpu_throttled_share) return;
  Finding f = about(FindingKind::kGpuThrottled, u, facts);
  const std::vector<double> slow = clocks_where(d, d.thermal_throttle_share, true, w);
  const auto reference = reference_clock(u, all, d.thermal_throttle_share, w);
  if (!slow.empty() && reference && *reference > 0) {
    const double clock = median(slow);
    f.cost_share = share * std::max(0.0, 1 - clock / *reference);
    f.evidence = {fact("sm_clock_mhz", clock, std::nullopt, *reference)};
  }
  f.cost_seconds = f.cost_share * seconds_of(w);
  f.severity = by_cost(f.cost_share, limits);
  const uint64_t bits = d.clock_reasons_seen;
  f.cause = bits & (kClockSwThermal | kClockHwThermal) ? Cause::kThermal
            : bits & kClockHwPowerBrake                ? Cause::kPowerBrake
                                                       : Cause::kHardwareSlowdown;
  f.title =
      formatted("{} is slowed down ({}) in {} of the samples", of_ranks(u), f.cause.text(), format_percent(share));
  f.action = f.cause == Cause::kThermal
                 ? "Check cooling and air flow of that GPU, or move the job off the node"
                 : "Check power supply and cables of that node: the hardware holds the clocks down";
  f.evidence.push_back(fact("thermal_throttle_share", share));
  if (const auto t = d.temperature_c.max_or_null()) f.evidence.push_back(fact("temperature_max_c", *t));
  out.push_back(std::move(f));
}

void hot(const Used& u, const HostFacts& facts, const HostThresholds& limits, std::vector<Finding>& out) {
  const DeviceFacts& d = *u.device;
  if (!enough(d.temperature_c, limits)) return;
  double limit = limits.gpu_hot_c;
  if (d.temperature_slowdown_c) limit = std::min(limit, *d.temperature_slowdown_c - limits.gpu_hot_margin_c);
  if (d.temperature_c.max < limit) return;
  Finding f = about(FindingKind::kGpuHot, u, facts);
  f.title = formatted("{} reached {:.0f} °C", of_ranks(u), d.temperature_c.max);
  f.action = "Check cooling; near the slow-down temperature the clocks will fall";
  f.evidence = {fact("temperature_max_c", d.temperature_c.max), fact("temperature_mean_c", d.temperature_c.mean)};
  if (d.temperature_slowdown_c) f.evidence.push_back(fact("temperature_slowdown_c", *d.temperature_slowdown_c));
  out.push_back(std::move(f));
}

std::optional<double> others_power_limit(const Used& u, const std::vector<Used>& all) {
  std::vector<double> v;
  for (const Used& o : all) {
    if (o.device != u.device && o.device->name == u.device->name && o.device->power_limit_w)
      v.push_back(*o.device->power_limit_w);
  }
  return v.empty() ? std::nullopt : std::optional(median(std::move(v)));
}

// At full load every device is held by its power limit, by design, and a busier one runs at lower clocks than one that
// waits. Time is lost only on a device whose limit is lower than that of the others.
void power_limited(const std::vector<Used>& all, const HostFacts& facts, const HostThresholds& limits, const Window& w,
                   std::vector<Finding>& out) {
  Finding normal = begin(FindingKind::kGpuPowerLimited, facts);
  double highest = 0, lowest = 1;
  size_t count = 0;
  for (const Used& u : all) {
    const DeviceFacts& d = *u.device;
    const std::vector<double> flags = values_in(d.power_cap_share, w);
    if (static_cast<double>(flags.size()) < limits.min_samples) continue;
    const double share = mean(flags);
    if (share < limits.gpu_power_limited_share) continue;
    const auto usual = others_power_limit(u, all);
    if (!usual || !d.power_limit_w || *d.power_limit_w > (1 - limits.gpu_power_limit_gap_share) * *usual) {
      ++count;
      highest = std::max(highest, share);
      lowest = std::min(lowest, share);
      normal.ranks.insert(normal.ranks.end(), d.ranks.begin(), d.ranks.end());
      continue;
    }
    Finding f = about(FindingKind::kGpuPowerLimited, u, facts);
    f.cause = Cause::kLowerLimit;
    const std::vector<double> capped = clocks_where(d, d.power_cap_share, true, w);
    const auto reference = reference_clock(u, all, d.power_cap_share, w);
    if (!capped.empty() && reference && *reference > 0) {
      f.cost_share = share * std::max(0.0, 1 - median(capped) / *reference);
      f.evidence.push_back(fact("sm_clock_mhz", median(capped), std::nullopt, *reference));
    }
    f.cost_seconds = f.cost_share * seconds_of(w);
    f.severity = by_cost(f.cost_share, limits);
    f.title =
        formatted("{} is held to {:.0f} W while the others may draw {:.0f} W", of_ranks(u), *d.power_limit_w, *usual);
    f.action = "Ask for the same power limit on all devices (nvidia-smi -pl), or leave that one out";
    f.evidence.push_back(fact("power_limit_w", *d.power_limit_w, std::nullopt, *usual));
    f.evidence.push_back(fact("power_cap_share", share));
    out.push_back(std::move(f));
  }
  if (count == 0) return;
  normal.clock = "gpu";
  normal.title = formatted("{} of {} GPUs run at their power limit in {} of the samples or more", count, all.size(),
                           format_percent(lowest));
  normal.action = "Normal for busy GPUs: more power would be more speed, nothing is wrong";
  normal.evidence = {fact("power_cap_share", highest)};
  if (count == all.size()) {
    normal.job_scope = true;
    normal.ranks.clear();
  }
  out.push_back(std::move(normal));
}

// docs/decisions/gpu_error_severity.md: why these are not info although their cost is not measured.
Severity xid_severity(uint64_t code) {
  static constexpr uint64_t kCrit[] = {48, 64, 79, 95, 119, 120, 140};
  static constexpr uint64_t kWarn[] = {74, 92, 94, 121};
  if (std::find(std::begin(kCrit), std::end(kCrit), code) != std::end(kCrit)) return Severity::kCrit;
  return std::find(std::begin(kWarn), std::end(kWarn), code) != std::end(kWarn) ? Severity::kWarn : Severity::kInfo;
}

void errors(const Used& u, const HostFacts& facts, std::vector<Finding>& out) {
  const DeviceFacts& d = *u.device;
  const uint64_t uncorrected = d.ecc_uncorrected.delta(), corrected = d.ecc_corrected.delta();
  const bool pending = d.remapped_rows_pending.value_or(0) > 0;
  if (d.xids.empty() && uncorrected == 0 && !pending) return;
  Finding f = about(FindingKind::kGpuError, u, facts);
  std::string what;
  for (const XidEvent& x : d.xids) {
    f.severity = std::max(f.severity, xid_severity(x.code));
    if (f.evidence.size() < 8) f.evidence.push_back(fact("xid", static_cast<double>(x.code)));
  }
  if (!d.xids.empty()) {
    f.cause = numbered(Cause::kXid, static_cast<int64_t>(d.xids.front().code));
    what = formatted("XID {}", d.xids.front().code);
  }
  if (uncorrected > 0) {
    f.severity = std::max(f.severity, Severity::kWarn);
    f.evidence.push_back(fact("ecc_uncorrected", static_cast<double>(uncorrected)));
    if (f.cause.empty()) f.cause = Cause::kEccUncorrected;
    what += formatted("{}{} uncorrected memory error(s)", what.empty() ? "" : ", ", uncorrected);
  }
  if (pending) {
    f.evidence.push_back(fact("remapped_rows_pending", *d.remapped_rows_pending));
    if (f.cause.empty()) f.cause = Cause::kRowRemappingPending;
    what += formatted("{}a row remapping waits for a reset", what.empty() ? "" : ", ");
  }
  if (corrected > 0) f.evidence.push_back(fact("ecc_corrected", static_cast<double>(corrected)));
  f.title = formatted("{} reports {}", of_ranks(u), what);
  f.action = "Look the XID up in NVIDIA's list; take the node out of service if it is a hardware error";
  out.push_back(std::move(f));
}

void link(const Used& u, const std::vector<Used>& all, const HostFacts& facts, const HostThresholds& limits,
          std::vector<Finding>& out) {
  const DeviceFacts& d = *u.device;
  if (d.mig) return;  // links belong to the whole GPU
  std::vector<std::string> what;
  Finding f = about(FindingKind::kLinkDegraded, u, facts);
  // Slots may be wired for fewer lanes than the card has: the other GPUs of the node tell what is usual here.
  std::optional<int> width;
  for (const Used& o : all) {
    if (o.device != u.device && o.device->name == d.name && o.device->pcie_width)
      width = std::max(width, o.device->pcie_width);
  }
  if (!width) width = d.pcie_width_max;
  if (d.pcie_width && width && *d.pcie_width < *width) {
    what.push_back(formatted("PCIe x{} instead of x{}", *d.pcie_width, *width));
    f.cause = Cause::kPcieWidth;
    f.evidence.push_back(fact("pcie_width", *d.pcie_width, std::nullopt, *width));
  }
  const double hours = static_cast<double>(facts.last_ns - facts.first_ns) / 3.6e12;
  const auto replays = static_cast<double>(d.pcie_replays.delta());
  if (hours > 0 && replays >= limits.pcie_min_replays && replays / hours >= limits.pcie_replays_per_hour) {
    what.push_back(formatted("{:.0f} PCIe replays", replays));
    if (f.cause.empty()) f.cause = Cause::kPcieReplays;
    f.evidence.push_back(fact("pcie_replays", replays));
  }
  if (static_cast<double>(d.nvlink_errors.delta()) >= limits.nvlink_errors) {
    what.push_back(formatted("{} NVLink replays and recoveries", d.nvlink_errors.delta()));
    if (f.cause.empty()) f.cause = Cause::kNvlinkErrors;
    f.evidence.push_back(fact("nvlink_errors", static_cast<double>(d.nvlink_errors.delta())));
  }
  // Fewer links than before, or than the other GPUs of the same kind have.
  int expected = d.nvlinks_expected.value_or(0);
  for (const Used& o : all) {
    if (o.device->name == d.name) expected = std::max(expected, o.device->nvlinks_active.value_or(0));
  }
  if (d.nvlinks_active && *d.nvlinks_active < expected) {
    what.push_back(formatted("{} of {} NVLinks up", *d.nvlinks_active, expected));
    f.cause = Cause::kNvlinkDown;
    f.evidence.push_back(fact("nvlinks_active", *d.nvlinks_active, std::nullopt, expected));
  }
  if (what.empty()) return;
  std::string list = what[0];
  for (size_t i = 1; i < what.size(); ++i) list += ", " + what[i];
  f.title = formatted("Links of {}: {}", of_ranks(u), list);
  f.action = "Reseat or replace the link, or move the job: transfers of this GPU are slower than those of the others";
  out.push_back(std::move(f));
}

}  // namespace

void judge_devices(const HostFacts& facts, const HostThresholds& limits, std::vector<Finding>& out) {
  const std::vector<Used> used = used_devices(facts);
  if (used.empty()) return;
  const Window w = steady_window(facts);
  utilization(used, facts, limits, w, out);
  power_limited(used, facts, limits, w, out);
  for (const Used& u : used) {
    throttled(u, used, facts, limits, w, out);
    hot(u, facts, limits, out);
    errors(u, facts, out);
    link(u, used, facts, limits, out);
  }
}

}  // namespace stepscope::host
