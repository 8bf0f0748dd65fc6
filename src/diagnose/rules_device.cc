// How host and device work together: HOST_BOUND (the device runs dry because the host launches too slowly) and
// SYNC_STALL (the program waits for the device in most steps, so that the host cannot run ahead of it).
#include <algorithm>
#include <map>

#include "base/text_format.h"
#include "diagnose/rule.h"

namespace stepscope {

namespace {

// Device time of the phases that had run dry at their end.
double starved_ms(const Cell& cell) {
  double ms = 0;
  for (size_t c = 0; c < kCategoryCount; ++c)
    if (cell.host_bound & (1u << c)) ms += cell.ms[c];
  return ms;
}

void judge_host_bound(const RuleInput& in, std::vector<Finding>& out) {
  const double share = in.share_of_job(starved_ms);
  if (share < in.limits->host_bound_share) return;
  FindingBuilder f = in.of_job(FindingKind::kHostBound, Category::kForward, share, Severity::kWarn, starved_ms);
  f.in_no_phase().costs(0);  // dry at its end is not dry throughout: what it costs is not known
  f.no_evidence_yet()
      .evidence("host_bound_share", share)
      .evidence("host_bound_ms_per_step", in.per_step_ms(starved_ms))
      .title(formatted("The GPU waits for the host: in {} of the time it runs dry behind the launches",
                       format_percent(share)))
      .action(
          "Larger batches, torch.compile or CUDA graphs launch fewer and larger kernels; look for Python work inside "
          "the "
          "step");
  out.push_back(f);
}

// Device time in which the stream stood still between phases: what a wait for the device surely costs.
double idle_ms(const Cell& cell) {
  return cell.ms[index(Category::kHostPause)] + cell.ms[index(Category::kUnattributed)] +
         cell.ms[index(Category::kUserCode)];
}

std::map<std::string, SyncSite> sites_of(const RuleInput& in) {
  std::map<std::string, SyncSite> sites;
  for (const auto& [rank, life] : *in.lives)
    for (const SyncSite& s : life.sync_sites) {
      SyncSite& sum = sites[s.site];
      sum.site = s.site;
      sum.count += s.count;
      sum.total_ns += s.total_ns;
    }
  return sites;
}

void judge_sync(const RuleInput& in, std::vector<Finding>& out) {
  size_t with = 0, all = 0;
  double blocked_ms = 0, wall_ms = 0;
  for (const StepRow* row : in.rows.rows)
    for (const Cell& cell : row->cells) {
      if (!cell.gpu) continue;
      ++all;
      with += cell.sync_ms > 0 ? 1 : 0;
      blocked_ms += cell.sync_ms;
      wall_ms += cell.host_wall_ms;
    }
  if (all == 0 || wall_ms <= 0 || static_cast<double>(with) < in.limits->sync_steps_share * static_cast<double>(all))
    return;
  const double blocked = blocked_ms / wall_ms;
  if (blocked < in.limits->warn_share) return;
  const auto cost_ms = [](const Cell& cell) { return std::min<double>(cell.sync_ms, idle_ms(cell)); };
  const double cost = in.share_of_job(cost_ms);
  FindingBuilder f =
      in.of_job(FindingKind::kSyncStall, Category::kHostPause, cost, std::max(Severity::kWarn, in.severity(cost)),
                [](const Cell& cell) { return static_cast<double>(cell.sync_ms); });
  f.caused_by(Cause::kSync);
  f.no_evidence_yet()
      .evidence("host_blocked_share", blocked)
      .evidence("host_blocked_ms_per_step", blocked_ms / static_cast<double>(all))
      .evidence("device_idle_share", cost)
      .evidence("steps_with_a_sync_share", static_cast<double>(with) / static_cast<double>(all));
  std::string where;
  std::vector<SyncSite> sites;
  for (auto& [text, site] : sites_of(in))
    if (!text.empty()) sites.push_back(site);
  std::sort(sites.begin(), sites.end(), [](const SyncSite& a, const SyncSite& b) { return a.total_ns > b.total_ns; });
  for (size_t i = 0; i < sites.size() && i < 3; ++i)
    f.evidence("blocked_ms", static_cast<double>(sites[i].total_ns) * 1e-6, {}, {}, sites[i].site);
  if (!sites.empty()) where = " at " + sites[0].site;
  f.title(formatted("Every step waits for the device{}: the host stands {} of the time and cannot launch ahead", where,
                    format_percent(blocked)))
      .action(
          "Read losses and metrics every n steps, or keep them on the device until then (no .item(), .cpu(), print per "
          "step)");
  out.push_back(f);
}

}  // namespace

void judge_device(const RuleInput& in, std::vector<Finding>& out) {
  if (in.rows.size() < static_cast<size_t>(in.limits->min_steps) || !in.on_device()) return;
  judge_sync(in, out);
  judge_host_bound(in, out);
}

}  // namespace stepscope
