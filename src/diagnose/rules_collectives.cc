// EXTRA_COLLECTIVES: many small collectives per step outside of the gradients' (metrics reduced one by one, buffers
// broadcast each step). Their price is latency and waiting, not bytes. Or large buffers of a model in DDP, which it
// sends from rank 0 before each forward: their price is bytes.
#include <algorithm>

#include "analyze/robust.h"
#include "base/text_format.h"
#include "diagnose/rules_advice.h"

namespace stepscope {

namespace {

// Medians over ranks, of the rows that still tell where the stalls were.
struct OutsideOfBackward {
  std::vector<double> counts;  // small collectives, by step
  std::vector<double> bytes;   // of all collectives, by step
  double share = 0;            // transfer of the stalls outside of backward, of the time
};

OutsideOfBackward outside_of_backward(const RuleInput& in) {
  OutsideOfBackward all;
  double stall_ms = 0, rows_ms = 0;
  for (size_t i = 0; i < in.rows.size(); ++i) {
    if (!in.rows.rows[i]->detailed) continue;
    rows_ms += static_cast<double>(in.rows.rows[i]->wall_ms) * in.rows.weights[i];
    std::vector<double> count, bytes, stall;
    for (const Cell& cell : in.rows.rows[i]->cells) {
      count.push_back(cell.small_collectives);
      bytes.push_back(static_cast<double>(cell.bytes));
      double outside = 0;
      for (const CellStall& s : cell.stalls)
        if (s.phase != Category::kBackward) outside += s.transfer_ms;
      stall.push_back(outside);
    }
    if (count.empty()) continue;
    all.counts.push_back(median(count));
    all.bytes.push_back(median(bytes));
    stall_ms += median(stall) * in.rows.weights[i];
  }
  all.share = rows_ms > 0 ? stall_ms / rows_ms : 0;
  return all;
}

// Bytes beside the gradients' that no buffer accounts for have their part of the transfer.
bool judge_buffers(const RuleInput& in, const OutsideOfBackward& outside, std::vector<Finding>& out) {
  if (in.lives->empty()) return false;
  const Configuration configuration(in.lives->begin()->second);
  const ConfigFact* ddp = configuration.find("ddp");
  if (!ddp || configuration.find("fsdp") || outside.bytes.empty()) return false;
  const double buffers = number(*ddp, "broadcast_bytes", 0), gradients = number(*ddp, "parameter_bytes", 0);
  if (buffers < in.limits->extra_collectives_buffer_bytes) return false;
  const double beside = median(outside.bytes) - gradients;
  if (beside < buffers / 2) return false;  // not sent in most steps
  const double share = outside.share * std::min(1.0, buffers / beside);
  const Severity severity = in.share_severity(share);
  if (severity == Severity::kInfo) return false;
  FindingBuilder f = in.finding(FindingKind::kExtraCollectives);
  f.about_job().in(Category::kCommTransfer).costs(share).graded(severity).confidence(0.9).throughout();
  out.push_back(f.caused_by(Cause::kBuffers)
                    .title(formatted("DDP broadcasts {} of buffers before each forward, which takes {} of the time",
                                     format_bytes(buffers), format_percent(share)))
                    .action("broadcast_buffers=False where all ranks compute them alike or nobody needs them equal; or "
                            "keep large state (queues, caches, masks) out of the module's buffers")
                    .evidence("buffer_bytes", buffers)
                    .evidence("gradient_bytes", gradients));
  return true;
}

}  // namespace

void judge_collectives(const RuleInput& in, std::vector<Finding>& out) {
  if (in.seen.size() < 2 || in.rows.size() < static_cast<size_t>(in.limits->min_steps)) return;
  const OutsideOfBackward outside = outside_of_backward(in);
  if (judge_buffers(in, outside, out)) return;
  const auto& [counts, bytes, share] = outside;
  if (counts.empty()) return;
  const double per_step = median(counts);
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
