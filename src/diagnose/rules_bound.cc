// What the whole job is bound by: H2D_BOUND, WAIT_HEAVY.
#include <algorithm>

#include "analyze/whatif.h"
#include "base/text_format.h"
#include "diagnose/judged.h"

namespace stepscope {

namespace {

std::optional<double> saved_without(const Judged& j, Category c) {
  return saved_share(j.rows, [&](size_t, const Cell& cell) {
    LedgerMs cut{};
    cut[index(c)] = cell.ms[index(c)];
    return cut;
  });
}

}  // namespace

void judge_bound(const Judged& j, std::vector<Finding>& out) {
  if (j.rows.size() < static_cast<size_t>(j.limits->min_steps)) return;
  const double h2d = j.share_of_job(Category::kH2d);
  if (j.share_severity(h2d) != Severity::kInfo) {
    Finding f = j.of_job(FindingKind::kH2dBound, Category::kH2d, h2d, j.share_severity(h2d));
    f.saves_share = saved_without(j, Category::kH2d);
    f.title = formatted("Copies to the device take {} of the time", format_percent(h2d));
    f.action = "Pin memory and copy with non_blocking=True, so that copies overlap with compute";
    out.push_back(std::move(f));
  }
  const double residual = j.share_of_job(Category::kUnattributed);
  if (j.share_severity(residual) != Severity::kInfo &&
      j.per_step_ms(Category::kUnattributed) >= j.limits->wait_heavy_min_ms) {
    Finding f = j.of_job(FindingKind::kWaitHeavy, Category::kUnattributed, residual, j.share_severity(residual));
    f.title = formatted("{} of the time belongs to no known phase, {} per step", format_percent(residual),
                        format_ms(j.per_step_ms(Category::kUnattributed)));
    f.action = "Name the code between the phases with stepscope.trace_phase to see what it is";
    out.push_back(std::move(f));
  }
}

}  // namespace stepscope
