// EXTRA_COLLECTIVES: many small collectives per step outside of the gradients' (metrics reduced one by one, buffers
// broadcast each step). Their price is latency and waiting, not bytes.
#include <algorithm>

#include "analyze/robust.h"
#include "base/text_format.h"
#include "diagnose/rule.h"

namespace stepscope {

void judge_collectives(const RuleInput& in, std::vector<Finding>& out) {
  if (in.seen.size() < 2 || in.rows.size() < static_cast<size_t>(in.limits->min_steps)) return;
  std::vector<double> counts;
  double stall_ms = 0, rows_ms = 0;  // of the rows that still tell where the stalls were
  for (size_t i = 0; i < in.rows.size(); ++i) {
    if (!in.rows.rows[i]->detailed) continue;
    rows_ms += static_cast<double>(in.rows.rows[i]->wall_ms) * in.rows.weights[i];
    std::vector<double> count, stall;
    for (const Cell& cell : in.rows.rows[i]->cells) {
      count.push_back(cell.small_collectives);
      double outside = 0;
      for (const CellStall& s : cell.stalls)
        if (s.phase != Category::kBackward) outside += s.transfer_ms;
      stall.push_back(outside);
    }
    if (count.empty()) continue;
    counts.push_back(median(count));
    stall_ms += median(stall) * in.rows.weights[i];
  }
  if (counts.empty()) return;
  const double per_step = median(counts);
  const double share = rows_ms > 0 ? stall_ms / rows_ms : 0;
  if (per_step < in.limits->extra_collectives_min) return;
  FindingBuilder f = in.finding(FindingKind::kExtraCollectives);
  f.about_job().in(Category::kCommTransfer).costs(share).confidence(0.9).throughout();
  // Of sync points with ranks that were not seen the transfer is not known.
  const bool known = share > 0 || in.share_of_job(Category::kUnresolved) <= 0;
  f.title(known ? formatted("{:.0f} small collectives per step beside the gradients' take {} of the time", per_step,
                            format_percent(share))
                : formatted("{:.0f} small collectives per step beside the gradients'; what they take cannot be told",
                            per_step))
      .action("Reduce metrics together and every N steps; broadcast_buffers=False where no layer needs it")
      .evidence("small_collectives_per_step", per_step);
  out.push_back(f);
}

}  // namespace stepscope
