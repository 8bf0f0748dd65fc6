// MEMORY_PRESSURE, cause near_limit or other_processes: what the device must hold at the peak of a step is nearly all
// it has. What torch merely keeps for later (reserved beyond the peak) is no need: it is given back before an
// allocation fails.
#include <algorithm>

#include "base/text_format.h"
#include "diagnose/host_view.h"
#include "diagnose/rule.h"

namespace stepscope {

namespace {

constexpr size_t kMaxNamed = 4;

std::string tenants_text(const std::vector<DeviceTenant>& others) {
  std::string out;
  for (size_t i = 0; i < others.size() && i < kMaxNamed; ++i)
    out += formatted("{}pid {} holds {}", i ? ", " : "", others[i].pid, format_bytes(others[i].bytes));
  if (others.size() > kMaxNamed) out += formatted(", {} more", others.size() - kMaxNamed);
  return out;
}

}  // namespace

void judge_device_pressure(const RuleInput& in, std::vector<Finding>& out) {
  const bool failed =
      std::any_of(out.begin(), out.end(), [](const Finding& f) { return f.cause == Cause::kOutOfMemory; });
  FindingBuilder f = in.finding(FindingKind::kMemoryPressure);
  f.graded(Severity::kWarn).throughout().confidence(0.95);
  const RankMemory* worst = nullptr;
  for (const RankMemory& m : in.memory) {
    if (m.demand_share() < in.limits->device_memory_near_share) continue;
    f.also_about(m.rank);
    if (!worst || m.demand_share() > worst->demand_share()) worst = &m;
  }
  if (!worst || failed) return;
  const double others = worst->others_bytes + worst->other_ranks_bytes;
  const bool guests = worst->demand_share() - worst->share(others) < in.limits->device_memory_near_share;
  f.caused_by(guests ? Cause::kOtherProcesses : Cause::kNearLimit);
  if (worst->demand_share() >= in.limits->device_memory_at_share) f.graded(Severity::kCrit);
  f.title(formatted("{}: {} of the device's {} are needed at the peak", capitalized(format_ranks(f->ranks)),
                    format_percent(worst->demand_share()), format_bytes(worst->capacity_bytes)));
  if (!worst->others.empty()) f.title_goes_on(", part of it by others: " + tenants_text(worst->others));
  f.action(guests ? "Move the other processes off this device, or give each job devices of its own"
                  : "Smaller micro-batches, activation checkpointing or sharding of states; a longer batch than "
                    "those seen may not fit");
  for (const RankMemory& m : in.memory) {
    if (f->evidence.size() >= 12 || m.demand_share() < in.limits->device_memory_near_share) continue;
    f.evidence("memory_needed_share", m.demand_share(), m.rank)
        .evidence("peak_allocated_bytes", m.peak_bytes, m.rank)
        .evidence("reserved_bytes", m.reserved_bytes, m.rank)
        .evidence("capacity_bytes", m.capacity_bytes, m.rank);
    if (m.other_ranks_bytes > 0) f.evidence("other_ranks_bytes", m.other_ranks_bytes, m.rank);
    for (size_t i = 0; i < m.others.size() && i < kMaxNamed; ++i)
      f.evidence("other_process_bytes", m.others[i].bytes, m.rank, {}, formatted("pid {}", m.others[i].pid));
  }
  out.push_back(f);
}

}  // namespace stepscope
