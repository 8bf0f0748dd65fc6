// Device health: LOW_/MODERATE_GPU_UTILIZATION, GPU_UTILIZATION_UNEVEN, GPU_THROTTLED, GPU_HOT, GPU_POWER_LIMITED,
// GPU_ERROR, LINK_DEGRADED. Utilisation is the share of time in which any kernel ran: a hint, never a cost. A cost is
// told only where clocks are measured to be lower than those of the other devices (or than the device's own best).
#include <algorithm>
#include <cmath>

#include "analyze/robust.h"
#include "base/text_format.h"
#include "diagnose/host_view.h"
#include "diagnose/rule.h"

namespace stepscope {

using namespace host;

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

FindingBuilder about(FindingKind kind, const Used& u, const RuleInput& in) {
  FindingBuilder f = in.finding(kind);
  f.about(u.device->ranks).on_device_clock();
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

void utilization(const std::vector<Used>& used, const RuleInput& in, const Window& w, std::vector<Finding>& out) {
  const HostThresholds& limits = *in.host_limits;
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
    FindingBuilder f = in.finding(low ? FindingKind::kLowGpuUtilization : FindingKind::kModerateGpuUtilization);
    f.about_job()
        .on_device_clock()
        .coverage(coverage)
        .title(formatted("GPUs run kernels {:.0f} % of the time", 100 * level))
        .action("Look at the step-time findings for what the GPUs wait for: input, the host, communication")
        .evidence("gpu_utilization_share", level);
    for (size_t i = 0; i < measured.size() && i < 8; ++i) {
      for (int rank : measured[i]->device->ranks) f.evidence("gpu_utilization_share", means[i], rank);
    }
    out.push_back(f);
  }
  if (means.size() < 2) return;
  const auto [low, high] = std::minmax_element(means.begin(), means.end());
  if (*high - *low < limits.gpu_uneven_utilization_share) return;
  FindingBuilder f = in.finding(FindingKind::kGpuUtilizationUneven);
  f.about_job().on_device_clock().coverage(coverage);
  const Used &a = *measured[static_cast<size_t>(low - means.begin())],
             &b = *measured[static_cast<size_t>(high - means.begin())];
  f.title(formatted("{} is used {:.0f} % of the time, {} {:.0f} %", of_ranks(a), 100 * *low, of_ranks(b), 100 * *high))
      .action("A rank that waits shows high use while NCCL kernels spin: trust the step-time findings for the culprit")
      .evidence("lowest_utilization_share", *low)
      .evidence("highest_utilization_share", *high);
  out.push_back(f);
}

void throttled(const Used& u, const std::vector<Used>& all, const RuleInput& in, const Window& w,
               std::vector<Finding>& out) {
  const HostThresholds& limits = *in.host_limits;
  const DeviceFacts& d = *u.device;
  const std::vector<double> flags = values_in(d.thermal_throttle_share, w);
  if (static_cast<double>(flags.size()) < limits.min_samples) return;
  const double share = mean(flags);
  if (share < limits.gpu_throttled_share) return;
  FindingBuilder f = about(FindingKind::kGpuThrottled, u, in);
  const std::vector<double> slow = clocks_where(d, d.thermal_throttle_share, true, w);
  const auto reference = reference_clock(u, all, d.thermal_throttle_share, w);
  if (!slow.empty() && reference && *reference > 0) {
    const double clock = median(slow);
    const double lost = share * std::max(0.0, 1 - clock / *reference);
    f.costs(lost, lost * seconds_of(w)).evidence("sm_clock_mhz", clock, std::nullopt, *reference);
  }
  const uint64_t bits = d.clock_reasons_seen;
  f.caused_by(bits & (kClockSwThermal | kClockHwThermal) ? Cause::kThermal
              : bits & kClockHwPowerBrake                ? Cause::kPowerBrake
                                                         : Cause::kHardwareSlowdown);
  f.title(formatted("{} is slowed down ({}) in {:.0f} % of the samples", of_ranks(u), f->cause.text(), 100 * share));
  f.action(f->cause == Cause::kThermal
               ? "Check cooling and air flow of that GPU, or move the job off the node"
               : "Check power supply and cables of that node: the hardware holds the clocks down")
      .evidence("thermal_throttle_share", share);
  if (const auto t = d.temperature_c.max_or_null()) f.evidence("temperature_max_c", *t);
  out.push_back(f);
}

void hot(const Used& u, const RuleInput& in, std::vector<Finding>& out) {
  const HostThresholds& limits = *in.host_limits;
  const DeviceFacts& d = *u.device;
  if (!enough(d.temperature_c, limits)) return;
  double limit = limits.gpu_hot_c;
  if (d.temperature_slowdown_c) limit = std::min(limit, *d.temperature_slowdown_c - limits.gpu_hot_margin_c);
  if (d.temperature_c.max < limit) return;
  FindingBuilder f = about(FindingKind::kGpuHot, u, in);
  f.title(formatted("{} reached {:.0f} degrees Celsius", of_ranks(u), d.temperature_c.max))
      .action("Check cooling; near the slow-down temperature the clocks will fall")
      .evidence("temperature_max_c", d.temperature_c.max)
      .evidence("temperature_mean_c", d.temperature_c.mean);
  if (d.temperature_slowdown_c) f.evidence("temperature_slowdown_c", *d.temperature_slowdown_c);
  out.push_back(f);
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
void power_limited(const std::vector<Used>& all, const RuleInput& in, const Window& w, std::vector<Finding>& out) {
  const HostThresholds& limits = *in.host_limits;
  FindingBuilder normal = in.finding(FindingKind::kGpuPowerLimited);
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
      for (int rank : d.ranks) normal.also_about(rank);
      continue;
    }
    FindingBuilder f = about(FindingKind::kGpuPowerLimited, u, in);
    f.caused_by(Cause::kLowerLimit);
    const std::vector<double> capped = clocks_where(d, d.power_cap_share, true, w);
    const auto reference = reference_clock(u, all, d.power_cap_share, w);
    if (!capped.empty() && reference && *reference > 0) {
      const double lost = share * std::max(0.0, 1 - median(capped) / *reference);
      f.costs(lost, lost * seconds_of(w)).evidence("sm_clock_mhz", median(capped), std::nullopt, *reference);
    }
    f.title(
         formatted("{} is held to {:.0f} W while the others may draw {:.0f} W", of_ranks(u), *d.power_limit_w, *usual))
        .action("Ask for the same power limit on all devices (nvidia-smi -pl), or leave that one out")
        .evidence("power_limit_w", *d.power_limit_w, std::nullopt, *usual)
        .evidence("power_cap_share", share);
    out.push_back(f);
  }
  if (count == 0) return;
  normal.on_device_clock();
  normal.title(formatted("{} of {} GPUs run at their power limit in {:.0f} % of the samples or more", count, all.size(),
                         100 * lowest));
  normal.action("Normal for busy GPUs: more power would be more speed, nothing is wrong");
  normal.evidence("power_cap_share", highest);
  if (count == all.size()) normal.about_job();
  out.push_back(normal);
}

// docs/decisions/0014-gpu-error-severity.md: why these are not info although their cost is not measured.
Severity xid_severity(uint64_t code) {
  static constexpr uint64_t kCrit[] = {48, 64, 79, 95, 119, 120, 140};
  static constexpr uint64_t kWarn[] = {74, 92, 94, 121};
  if (std::find(std::begin(kCrit), std::end(kCrit), code) != std::end(kCrit)) return Severity::kCrit;
  return std::find(std::begin(kWarn), std::end(kWarn), code) != std::end(kWarn) ? Severity::kWarn : Severity::kInfo;
}

void errors(const Used& u, const RuleInput& in, std::vector<Finding>& out) {
  const DeviceFacts& d = *u.device;
  const uint64_t uncorrected = d.ecc_uncorrected.delta(), corrected = d.ecc_corrected.delta();
  const bool pending = d.remapped_rows_pending.value_or(0) > 0;
  if (d.xids.empty() && uncorrected == 0 && !pending) return;
  FindingBuilder f = about(FindingKind::kGpuError, u, in);
  std::string what;
  for (const XidEvent& x : d.xids) {
    f.at_least(xid_severity(x.code));
    if (f->evidence.size() < 8) f.evidence("xid", static_cast<double>(x.code));
  }
  if (!d.xids.empty()) {
    f.caused_by(numbered(Cause::kXid, static_cast<int64_t>(d.xids.front().code)));
    what = formatted("XID {}", d.xids.front().code);
  }
  if (uncorrected > 0) {
    f.at_least(Severity::kWarn);
    f.evidence("ecc_uncorrected", static_cast<double>(uncorrected));
    if (f->cause.empty()) f.caused_by(Cause::kEccUncorrected);
    what += formatted("{}{} uncorrected memory error(s)", what.empty() ? "" : ", ", uncorrected);
  }
  if (pending) {
    f.evidence("remapped_rows_pending", *d.remapped_rows_pending);
    if (f->cause.empty()) f.caused_by(Cause::kRowRemappingPending);
    what += formatted("{}a row remapping waits for a reset", what.empty() ? "" : ", ");
  }
  if (corrected > 0) f.evidence("ecc_corrected", static_cast<double>(corrected));
  f.title(formatted("{} reports {}", of_ranks(u), what))
      .action("Look the XID up in NVIDIA's list; take the node out of service if it is a hardware error");
  out.push_back(f);
}

void link(const Used& u, const std::vector<Used>& all, const RuleInput& in, std::vector<Finding>& out) {
  const HostFacts& facts = *in.host;
  const HostThresholds& limits = *in.host_limits;
  const DeviceFacts& d = *u.device;
  if (d.mig) return;  // links belong to the whole GPU
  std::vector<std::string> what;
  FindingBuilder f = about(FindingKind::kLinkDegraded, u, in);
  // Slots may be wired for fewer lanes than the card has: the other GPUs of the node tell what is usual here.
  std::optional<int> width;
  for (const Used& o : all) {
    if (o.device != u.device && o.device->name == d.name && o.device->pcie_width)
      width = std::max(width, o.device->pcie_width);
  }
  if (!width) width = d.pcie_width_max;
  if (d.pcie_width && width && *d.pcie_width < *width) {
    what.push_back(formatted("PCIe x{} instead of x{}", *d.pcie_width, *width));
    f.caused_by(Cause::kPcieWidth).evidence("pcie_width", *d.pcie_width, std::nullopt, *width);
  }
  const double hours = static_cast<double>(facts.last_ns - facts.first_ns) / 3.6e12;
  const auto replays = static_cast<double>(d.pcie_replays.delta());
  if (hours > 0 && replays >= limits.pcie_min_replays && replays / hours >= limits.pcie_replays_per_hour) {
    what.push_back(formatted("{:.0f} PCIe replays", replays));
    if (f->cause.empty()) f.caused_by(Cause::kPcieReplays);
    f.evidence("pcie_replays", replays);
  }
  if (static_cast<double>(d.nvlink_errors.delta()) >= limits.nvlink_errors) {
    what.push_back(formatted("{} NVLink replays and recoveries", d.nvlink_errors.delta()));
    if (f->cause.empty()) f.caused_by(Cause::kNvlinkErrors);
    f.evidence("nvlink_errors", static_cast<double>(d.nvlink_errors.delta()));
  }
  // Fewer links than before, or than the other GPUs of the same kind have.
  int expected = d.nvlinks_expected.value_or(0);
  for (const Used& o : all) {
    if (o.device->name == d.name) expected = std::max(expected, o.device->nvlinks_active.value_or(0));
  }
  if (d.nvlinks_active && *d.nvlinks_active < expected) {
    what.push_back(formatted("{} of {} NVLinks up", *d.nvlinks_active, expected));
    f.caused_by(Cause::kNvlinkDown).evidence("nvlinks_active", *d.nvlinks_active, std::nullopt, expected);
  }
  if (what.empty()) return;
  std::string list = what[0];
  for (size_t i = 1; i < what.size(); ++i) list += ", " + what[i];
  f.title(formatted("Links of {}: {}", of_ranks(u), list))
      .action("Reseat or replace the link, or move the job: transfers of this GPU are slower than those of the others");
  out.push_back(f);
}

}  // namespace

void judge_host_devices(const RuleInput& in, std::vector<Finding>& out) {
  const HostFacts& facts = *in.host;
  const std::vector<Used> used = used_devices(facts);
  if (used.empty()) return;
  const Window w = steady_window(facts);
  utilization(used, in, w, out);
  power_limited(used, in, w, out);
  for (const Used& u : used) {
    throttled(u, used, in, w, out);
    hot(u, in, out);
    errors(u, in, out);
    link(u, used, in, out);
  }
}

}  // namespace stepscope
