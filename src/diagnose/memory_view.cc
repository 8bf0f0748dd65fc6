#include "diagnose/memory_view.h"

#include <algorithm>

#include "base/text_format.h"
#include "analyze/robust.h"

namespace stepscope::memory {
namespace {

// Context, communication buffers, libraries. Both figures are of different moments: a cache that was emptied in between
// is no need.
constexpr double kMostExtraShare = 0.05;

void take_room(const Judged& j, RankMemory& m) {
  if (const auto life = j.lives->find(m.rank); life != j.lives->end())
    m.capacity_bytes = static_cast<double>(life->second.device_memory_bytes);
  if (!j.rooms) return;
  const auto found = j.rooms->find(m.rank);
  if (found == j.rooms->end()) return;
  const DeviceRoom& room = found->second;
  // What torch says is what torch can have (a MIG slice, a limit of the driver); the board's size only where it is
  // silent.
  if (m.capacity_bytes <= 0) m.capacity_bytes = room.capacity_bytes;
  if (room.own_bytes > 0)
    m.own_extra_bytes = std::clamp(room.own_bytes - m.reserved_bytes, 0.0, kMostExtraShare * m.capacity_bytes);
  m.other_ranks_bytes = room.other_ranks_bytes;
  m.others = room.others;
  std::sort(m.others.begin(), m.others.end(),
            [](const DeviceTenant& a, const DeviceTenant& b) { return a.bytes > b.bytes; });
  for (const DeviceTenant& t : m.others) m.others_bytes += t.bytes;
}

}  // namespace

double RankMemory::demand_share() const {
  return share(peak_bytes + own_extra_bytes + others_bytes + other_ranks_bytes);
}

std::vector<RankMemory> measured(const Judged& j) {
  std::vector<RankMemory> out;
  const auto& rows = j.with_warmup.rows;
  for (int rank : j.seen) {
    RankMemory m;
    m.rank = rank;
    bool seen = false;
    std::vector<double> split, split_of;
    for (size_t i = 0; i < rows.size(); ++i) {
      const Cell* found = rows[i]->find(rank);
      if (!found || found->allocated_bytes < 0) continue;
      const Cell& cell = *found;
      seen = true;
      m.peak_bytes = std::max({m.peak_bytes, cell.peak_bytes, cell.allocated_bytes});
      m.reserved_bytes = cell.reserved_bytes;
      if (cell.held_bytes >= 0) m.held_bytes = cell.held_bytes;
      const bool near_top = cell.allocated_bytes != cell.held_bytes;
      if (near_top || m.allocated_bytes == 0) m.allocated_bytes = cell.allocated_bytes;
      if (!near_top || 2 * i < rows.size()) continue;
      split.push_back(cell.inactive_split_bytes);
      split_of.push_back(cell.reserved_bytes);
    }
    if (!seen) continue;
    if (!split.empty()) m.split_bytes = median(split), m.split_of_bytes = median(split_of);
    take_room(j, m);
    out.push_back(std::move(m));
  }
  return out;
}

Finding begin(const Judged& j, FindingKind kind, Severity severity) {
  Finding f = Finding::of(kind);
  f.severity = severity;
  f.first_step = j.first_step();
  f.last_step = j.last_step();
  f.coverage = j.coverage;
  f.confidence = 0.95;
  return f;
}

std::string who(const std::vector<int>& ranks) { return capitalized(format_ranks(ranks)); }

}  // namespace stepscope::memory

namespace stepscope {

void judge_device_memory(const Judged& j, std::vector<Finding>& out) {
  const std::vector<memory::RankMemory> ranks = memory::measured(j);
  memory::judge_oom(j, ranks, out);
  memory::judge_pressure(j, ranks, out);
  memory::judge_creep(j, ranks, out);
  memory::judge_fragments(j, ranks, out);
  memory::judge_overhang(j, ranks, out);
  memory::judge_imbalance(j, ranks, out);
  memory::judge_lengths(j, ranks, out);
}

}  // namespace stepscope
