#include "diagnose/timed_collectives.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/text_format.h"
#include "analyze/robust.h"
#include "diagnose/rule_input.h"

namespace stepscope {

std::string_view op_name(CollectiveOp op) {
  switch (op) {
    case CollectiveOp::kAllReduce: return "all_reduce";
    case CollectiveOp::kAllGather: return "all_gather";
    case CollectiveOp::kReduceScatter: return "reduce_scatter";
    case CollectiveOp::kBroadcast: return "broadcast";
    case CollectiveOp::kReduce: return "reduce";
    case CollectiveOp::kGather: return "gather";
    case CollectiveOp::kScatter: return "scatter";
    case CollectiveOp::kAllToAll: return "all_to_all";
    case CollectiveOp::kSend: return "send";
    case CollectiveOp::kRecv: return "recv";
    case CollectiveOp::kBarrier: return "barrier";
    case CollectiveOp::kMonitoredBarrier: return "monitored_barrier";
    default: return "other";
  }
}

namespace {

struct SyncPoint {
  size_t members = 0;  // 0 = nobody told
  uint64_t bytes = 0;
  double least_ms = 0, total_ms = 0;
  size_t participants = 0;
};

struct Line {
  double sync_points = 0, bytes = 0, transfer_ms = 0, wait_ms = 0;
  std::vector<double> bus;
  bool whole = false;  // some of its sync points were seen by all members
  std::set<int> ranks;
};

using LineKey = std::tuple<uint64_t, uint8_t, bool>;  // communicator, operation, large

bool is_message(uint8_t op) {
  const auto what = static_cast<CollectiveOp>(op);
  return what == CollectiveOp::kSend || what == CollectiveOp::kRecv;
}

void add_row(const StepRow& row, const Groups& groups, bool half_seen, std::map<LineKey, Line>& lines) {
  // Messages are told by their rank and peer: those to different peers have the same numbers.
  std::map<std::tuple<uint64_t, uint64_t, uint8_t, int64_t, int64_t>, SyncPoint> sync_points;
  for (const Cell& cell : row.cells)
    for (const CellOp& op : cell.timed_ops) {
      const bool message = is_message(op.op);
      SyncPoint& m = sync_points[{op.group, op.sequence, op.op, message ? cell.rank : -1, message ? op.peer : -1}];
      m.members = message ? 1 : group_size(groups, op.group, 0);
      m.bytes = std::max(m.bytes, op.bytes);
      m.least_ms = m.participants == 0 ? op.ms : std::min<double>(m.least_ms, op.ms);
      m.total_ms += op.ms;
      ++m.participants;
      lines[{op.group, op.op, op.bytes >= kLargeOpBytes}].ranks.insert(cell.rank);
    }
  for (const auto& [key, m] : sync_points) {
    Line& line = lines[{std::get<0>(key), std::get<2>(key), m.bytes >= kLargeOpBytes}];
    ++line.sync_points;
    line.bytes += static_cast<double>(m.bytes);
    const bool whole = m.members ? m.participants >= m.members : !half_seen;
    if (whole) {
      line.transfer_ms += m.least_ms;
      line.whole = true;
    }
    line.wait_ms += m.total_ms / static_cast<double>(m.participants) - m.least_ms;
    const double bus = bus_gb_per_s(static_cast<CollectiveOp>(std::get<2>(key)), m.bytes,
                                    is_message(std::get<2>(key)) ? 2 : m.participants, m.least_ms);
    if (whole && bus > 0 && m.bytes >= kLargeOpBytes) line.bus.push_back(bus);
  }
}

}  // namespace

double bus_gb_per_s(CollectiveOp op, uint64_t bytes, size_t ranks, double ms) {
  if (ranks < 2 || ms <= 0) return 0;
  const double n = static_cast<double>(ranks), rate = static_cast<double>(bytes) / ms * 1e-6;
  switch (op) {
    case CollectiveOp::kAllReduce: return rate * 2 * (n - 1) / n;
    case CollectiveOp::kAllGather:
    case CollectiveOp::kReduceScatter: return rate * (n - 1);
    case CollectiveOp::kBroadcast:
    case CollectiveOp::kReduce:
    case CollectiveOp::kSend:
    case CollectiveOp::kRecv: return rate;
    default: return 0;
  }
}

std::vector<CollectiveStat> timed_collectives(const Rows& rows, const Groups& groups, bool half_seen) {
  std::map<LineKey, Line> lines;
  size_t steps = 0;
  for (const StepRow* row : rows.rows) {
    const bool timed =
        std::any_of(row->cells.begin(), row->cells.end(), [](const Cell& c) { return !c.timed_ops.empty(); });
    if (!timed) continue;
    add_row(*row, groups, half_seen, lines);
    ++steps;
  }
  std::vector<CollectiveStat> out;
  for (auto& [key, line] : lines) {
    if (line.sync_points == 0) continue;
    CollectiveStat c;
    c.ranks.assign(line.ranks.begin(), line.ranks.end());
    const auto found = groups.find(std::get<0>(key));
    const bool named =
        found != groups.end() && !found->second.description.empty() && found->second.description != "undefined";
    c.group = named ? found->second.description : format_ranks(c.ranks);
    c.op = op_name(static_cast<CollectiveOp>(std::get<1>(key)));
    if (!std::get<2>(key) && lines.count({std::get<0>(key), std::get<1>(key), true})) c.op += " < 1 MiB";
    c.per_step = line.sync_points / static_cast<double>(steps);
    c.bytes_per_step = line.bytes / static_cast<double>(steps);
    if (line.whole) c.transfer_ms = line.transfer_ms / static_cast<double>(steps);
    c.wait_ms = line.wait_ms / static_cast<double>(steps);
    if (!line.bus.empty()) c.bus_gb_per_s = median(line.bus);
    out.push_back(std::move(c));
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& a, const auto& b) { return a.bytes_per_step > b.bytes_per_step; });
  return out;
}

}  // namespace stepscope
