// What the whole job is bound by: H2D_BOUND, WAIT_HEAVY.

#include "base/text_format.h"
#include "diagnose/rule.h"

namespace stepscope {

void judge_bound(const RuleInput& in, std::vector<Finding>& out) {
  if (in.rows.size() < static_cast<size_t>(in.limits->min_steps)) return;
  const double h2d = in.share_of_job(Category::kH2d);
  if (in.share_severity(h2d) != Severity::kInfo) {
    FindingBuilder f = in.of_job(FindingKind::kH2dBound, Category::kH2d, h2d, in.share_severity(h2d));
    f.saves(Category::kH2d)
        .title(formatted("Copies to the device take {} of the time", format_percent(h2d)))
        .action("Pin memory and copy with non_blocking=True, so that copies overlap with compute");
    out.push_back(f);
  }
  const double residual = in.share_of_job(Category::kUnattributed);
  if (in.share_severity(residual) != Severity::kInfo &&
      in.per_step_ms(Category::kUnattributed) >= in.limits->wait_heavy_min_ms) {
    FindingBuilder f =
        in.of_job(FindingKind::kWaitHeavy, Category::kUnattributed, residual, in.share_severity(residual));
    f.title(formatted("{} of the time belongs to no known phase, {} per step", format_percent(residual),
                      format_ms(in.per_step_ms(Category::kUnattributed))))
        .action("Name the code between the phases with stepscope.trace_phase to see what it is");
    out.push_back(f);
  }
}

}  // namespace stepscope
