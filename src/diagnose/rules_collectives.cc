// EXTRA_COLLECTIVES: many small collectives per step outside of the gradients' (metrics reduced one by one, buffers
// broadcast each step). Their price is latency and waiting, not bytes.
#include <algorithm>

#include "analyze/robust.h"
#include "base/text_format.h"
#include "diagnose/judged.h"

namespace stepscope {

void judge_collectives(const Judged& j, std::vector<Finding>& out) {
  if (j.seen.size() < 2 || j.rows.size() < static_cast<size_t>(j.limits->min_steps)) return;
  std::vector<double> counts;
  double stall_ms = 0, rows_ms = 0;  // of the rows that still tell where the stalls were
  for (size_t i = 0; i < j.rows.size(); ++i) {
    if (!j.rows.rows[i]->detailed) continue;
    rows_ms += static_cast<double>(j.rows.rows[i]->wall_ms) * j.rows.weights[i];
    std::vector<double> count, stall;
    for (const Cell& cell : j.rows.rows[i]->cells) {
      count.push_back(cell.small_collectives);
      double outside = 0;
      for (const CellStall& s : cell.stalls)
        if (s.phase != Category::kBackward) outside += s.transfer_ms;
      stall.push_back(outside);
    }
    if (count.empty()) continue;
    counts.push_back(median(count));
    stall_ms += median(stall) * j.rows.weights[i];
  }
  if (counts.empty()) return;
  const double per_step = median(counts);
  const double share = rows_ms > 0 ? stall_ms / rows_ms : 0;
  if (per_step < j.limits->extra_collectives_min) return;
  Finding f = Finding::of(FindingKind::kExtraCollectives);
  f.severity = j.severity(share);
  f.job_scope = true;
  f.phase = std::string(name(Category::kCommTransfer));
  f.cost_share = share;
  f.cost_seconds = j.seconds(share);
  f.coverage = j.coverage;
  f.confidence = 0.9;
  f.first_step = j.first_step();
  f.last_step = j.last_step();
  // Of meetings with ranks that were not seen the transfer is not known.
  const bool known = share > 0 || j.share_of_job(Category::kUnresolved) <= 0;
  f.title = known ? formatted("{:.0f} small collectives per step beside the gradients' take {} of the time", per_step,
                              format_percent(share))
                  : formatted("{:.0f} small collectives per step beside the gradients'; what they take cannot be told",
                              per_step);
  f.action = "Reduce metrics together and every N steps; broadcast_buffers=False where no layer needs it";
  f.evidence.push_back({"small_collectives_per_step", {}, per_step, {}, ""});
  out.push_back(std::move(f));
}

}  // namespace stepscope
