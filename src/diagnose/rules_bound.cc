// What the whole job is bound by: H2D_BOUND, WAIT_HEAVY; COMPUTE_BOUND and BALANCED where nothing else was
// said.
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
    f.title = formatted("Copies to the device take {} of the time", text_share(h2d));
    f.action = "pin memory and copy with non_blocking=True, so that copies overlap with compute";
    out.push_back(std::move(f));
  }
  const double residual = j.share_of_job(Category::kUnattributed);
  if (j.share_severity(residual) != Severity::kInfo && j.per_step_ms(Category::kUnattributed) >= j.limits->wait_heavy_min_ms) {
    Finding f = j.of_job(FindingKind::kWaitHeavy, Category::kUnattributed, residual, j.share_severity(residual));
    f.title = formatted("{} of the time belongs to no known phase, {} per step", text_share(residual),
                        text_ms(j.per_step_ms(Category::kUnattributed)));
    f.action = "name the code between the phases with stepscope.trace_phase to see what it is";
    out.push_back(std::move(f));
  }
}

void judge_balance(const Judged& j, std::vector<Finding>& out) {
  if (j.steps_closed < static_cast<uint32_t>(j.limits->warmup_steps + j.limits->min_steps)) return;
  const bool said = std::any_of(out.begin(), out.end(), [](const Finding& f) {
    return f.section == SectionName::kStepTime && (f.severity != Severity::kInfo || f.kind == FindingKind::kIncompleteData);
  });
  // Healthy is said of a job, and only by who saw all of it.
  if (said || j.half_seen()) return;
  const double compute = j.share_of_job(Category::kForward) + j.share_of_job(Category::kBackward) + j.share_of_job(Category::kOptimizer);
  const bool bound_by_compute = compute >= j.limits->compute_bound_share;
  Finding f = Finding::of(bound_by_compute ? FindingKind::kComputeBound : FindingKind::kBalanced);
  f.job_scope = true;
  f.coverage = j.coverage;
  f.confidence = 0.9 * j.coverage;
  f.first_step = j.first_step();
  f.last_step = j.last_step();
  f.evidence.push_back({"compute_share", {}, compute, {}, ""});
  f.title = bound_by_compute ? formatted("Healthy: {} of the time is the model's own compute", text_share(compute))
                             : std::string("Healthy: no phase and no rank stands out");
  f.action = bound_by_compute ? "faster kernels, a smaller model or more devices are what is left to win"
                              : "nothing to do";
  out.push_back(std::move(f));
}

}  // namespace stepscope
