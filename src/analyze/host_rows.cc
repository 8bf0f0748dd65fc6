#include "analyze/host_rows.h"

#include <algorithm>

namespace stepscope {
namespace {

// By host; of those that have a rank in the step.
std::vector<Cell> cells_of(const StepRow& row, const CoreSharing& sharing, std::vector<int>& ranks) {
  std::vector<Cell> cells(sharing.hosts.size());
  ranks.assign(sharing.hosts.size(), 0);
  for (const Cell& cell : row.cells) {
    const auto host = sharing.host_of.find(cell.rank);
    if (host == sharing.host_of.end()) continue;
    Cell& of_host = cells[host->second];
    const bool first = ranks[host->second]++ == 0;
    of_host.rank = static_cast<int32_t>(host->second);
    of_host.gpu = first ? cell.gpu : of_host.gpu && cell.gpu;
    of_host.end_ns = std::max(of_host.end_ns, cell.end_ns);
    of_host.wall_ms = std::max(of_host.wall_ms, cell.wall_ms);
    for (size_t c = 0; c < kCategoryCount; ++c)
      of_host.ms[c] = first ? cell.ms[c] : std::min(of_host.ms[c], cell.ms[c]);
  }
  return cells;
}

StepRow of_hosts(const StepRow& row, const CoreSharing& sharing) {
  StepRow out;
  out.step = row.step, out.tags = row.tags, out.detailed = false, out.wall_ms = row.wall_ms;
  std::vector<int> ranks;
  std::vector<Cell> cells = cells_of(row, sharing, ranks);
  for (const Blame& blame : row.caused) {
    const auto causer = sharing.host_of.find(blame.causer), waiter = sharing.host_of.find(blame.waiter);
    if (causer == sharing.host_of.end() || waiter == sharing.host_of.end() || causer->second == waiter->second)
      continue;
    const float ms = blame.ms / static_cast<float>(std::max(1, ranks[waiter->second]));
    out.caused.push_back({static_cast<int32_t>(causer->second), static_cast<int32_t>(waiter->second), ms});
    cells[causer->second].caused_ms += ms;
  }
  settle(out.caused);
  for (size_t h = 0; h < cells.size(); ++h)
    if (ranks[h] > 0) out.cells.push_back(std::move(cells[h]));
  return out;
}

}  // namespace

HostRows::HostRows(const Rows& rows, const CoreSharing& sharing) : of_ranks_(rows) {
  made_.reserve(rows.size());
  for (size_t i = 0; i < rows.size(); ++i)
    rows_.add(made_.emplace_back(of_hosts(*rows.rows[i], sharing)), rows.weights[i]);
}

Rows HostRows::behind(const Rows& selection) const {
  Rows out;
  for (size_t i = 0; i < selection.size(); ++i)
    out.add(*of_ranks_.rows[static_cast<size_t>(selection.rows[i] - made_.data())], selection.weights[i]);
  return out;
}

}  // namespace stepscope
