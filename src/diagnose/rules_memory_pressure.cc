// MEMORY_PRESSURE, cause near_limit or other_processes: what the device must hold at the peak of a step is nearly all
// it has. What torch merely keeps for later (reserved beyond the peak) is no need: it is given back before an
// allocation fails.
#include <algorithm>

#include "base/text_format.h"
#include "diagnose/memory_view.h"

namespace stepscope::memory {
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

void judge_pressure(const Judged& j, const std::vector<RankMemory>& ranks, std::vector<Finding>& out) {
  const bool failed =
      std::any_of(out.begin(), out.end(), [](const Finding& f) { return f.cause == Cause::kOutOfMemory; });
  Finding f = begin(j, FindingKind::kMemoryPressure, Severity::kWarn);
  const RankMemory* worst = nullptr;
  for (const RankMemory& m : ranks) {
    if (m.demand_share() < j.limits->device_memory_near_share) continue;
    f.ranks.push_back(m.rank);
    if (!worst || m.demand_share() > worst->demand_share()) worst = &m;
  }
  if (!worst || failed) return;
  const double others = worst->others_bytes + worst->other_ranks_bytes;
  const bool guests = worst->demand_share() - worst->share(others) < j.limits->device_memory_near_share;
  f.cause = guests ? Cause::kOtherProcesses : Cause::kNearLimit;
  if (worst->demand_share() >= j.limits->device_memory_at_share) f.severity = Severity::kCrit;
  f.title = formatted("{}: {} of the device's {} are needed at the peak", who(f.ranks),
                      format_percent(worst->demand_share()), format_bytes(worst->capacity_bytes));
  if (!worst->others.empty()) f.title += ", part of it by others: " + tenants_text(worst->others);
  f.action = guests ? "Move the other processes off this device, or give each job devices of its own"
                    : "Smaller micro-batches, activation checkpointing or sharding of states; a longer batch than "
                      "those seen may not fit";
  for (const RankMemory& m : ranks) {
    if (f.evidence.size() >= 12 || m.demand_share() < j.limits->device_memory_near_share) continue;
    f.evidence.push_back(fact("memory_needed_share", m.demand_share(), m.rank));
    f.evidence.push_back(fact("peak_allocated_bytes", m.peak_bytes, m.rank));
    f.evidence.push_back(fact("reserved_bytes", m.reserved_bytes, m.rank));
    f.evidence.push_back(fact("capacity_bytes", m.capacity_bytes, m.rank));
    if (m.other_ranks_bytes > 0) f.evidence.push_back(fact("other_ranks_bytes", m.other_ranks_bytes, m.rank));
    for (size_t i = 0; i < m.others.size() && i < kMaxNamed; ++i) {
      Evidence e = fact("other_process_bytes", m.others[i].bytes, m.rank);
      e.text = formatted("pid {}", m.others[i].pid);
      f.evidence.push_back(std::move(e));
    }
  }
  out.push_back(std::move(f));
}

}  // namespace stepscope::memory
