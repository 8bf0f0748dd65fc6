// SLOW_START: what lies before the first step, where a cause is known: batches that the loader made and no step used.
#include <algorithm>

#include "base/text_format.h"
#include "diagnose/rule.h"

namespace stepscope {

void judge_start(const RuleInput& in, std::vector<Finding>& out) {
  FindingBuilder f = in.finding(FindingKind::kSlowStart);
  double longest_s = 0, most = 0, run_s = 0;
  for (const auto& [rank, life] : *in.lives) {
    const double dropped_s = static_cast<double>(life.dropped_ns) * 1e-9;
    const auto batches = static_cast<double>(life.dropped_batches);
    if (life.process_start_ns > 0)
      run_s =
          std::max(run_s, static_cast<double>(std::max(life.last_step_ns, life.end_ns) - life.process_start_ns) * 1e-9);
    if (batches < in.limits->slow_start_batches || dropped_s < in.limits->slow_start_min_s) continue;
    f.also_about(rank);
    f.evidence("dropped_batches", batches, rank).evidence("dropped_s", dropped_s, rank);
    longest_s = std::max(longest_s, dropped_s);
    most = std::max(most, batches);
  }
  if (f->ranks.empty()) return;
  f.in(Category::kStartup)
      .caused_by(Cause::kBatchesDropped)
      .costs(run_s > 0 ? std::min(1.0, longest_s / run_s) : 0, longest_s)
      .graded(longest_s >= in.limits->slow_start_warn_s ? Severity::kWarn : Severity::kInfo)
      .confidence(0.95)
      .at_step(0)
      .title(formatted("Before the first step the loader made {:.0f} batches that no step used, in {}", most,
                       format_seconds(longest_s)))
      .action(
          "A resume that skips by drawing and dropping: begin behind the skipped part in the sampler "
          "(StatefulDataLoader, skip indices) or do without (ignore_data_skip)");
  out.push_back(f);
}

}  // namespace stepscope
