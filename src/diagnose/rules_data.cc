// NO_DATA, WARMUP, INCOMPLETE_DATA: too little evidence, said plainly instead of a verdict.

#include "base/text_format.h"
#include "diagnose/judged.h"

namespace stepscope {

namespace {

Finding about_data(FindingKind kind, std::string title, std::string action) {
  Finding f = Finding::of(kind);
  f.job_scope = true;
  f.confidence = 1;
  f.title = std::move(title);
  f.action = std::move(action);
  return f;
}

}  // namespace

void judge_data(const Judged& j, std::vector<Finding>& out) {
  const Thresholds& t = *j.limits;
  if (j.steps_closed == 0) {
    if (!j.over || j.unhooked) return;  // the hooks are missing, not the training: OBSERVER_DEGRADED says so
    out.push_back(about_data(FindingKind::kNoData, "No training step was seen",
                             "check that the script trains with torch and an optimizer; mark steps with stepscope.trace_step"));
    return;
  }
  const auto needed = static_cast<uint32_t>(t.warmup_steps + t.min_steps);
  if (j.steps_closed < needed) {
    Finding f = about_data(FindingKind::kWarmup, formatted("{} steps seen, {} are needed for a verdict", j.steps_closed, needed),
                           "let it run longer");
    f.coverage = j.coverage;
    out.push_back(std::move(f));
    return;
  }
  std::vector<int> silent;
  for (const auto& [rank, life] : *j.lives)
    if (life.steps == 0) silent.push_back(rank);
  const int missing = std::max(j.ranks, j.world) - static_cast<int>(j.lives->size());
  const double unresolved = j.share_of_job(Category::kUnresolved);
  const bool priced = unresolved >= t.warn_share;
  if (j.coverage >= t.min_coverage && silent.empty() && missing <= 0 && !priced) return;
  std::string title = j.half_seen() ? formatted("{} of {} ranks were seen", j.ever_seen, j.world)
                                    : formatted("Figures rest on {} of all ranks and steps", text_share(j.coverage));
  if (priced)
    title += formatted("; {} of the time of those seen goes into waiting for {}", text_share(unresolved),
                       j.half_seen() ? "the others, or into the link: which of them cannot be told"
                                     : "ranks whose part was not seen, or into the link: which of them cannot be told");
  Finding f = about_data(FindingKind::kIncompleteData, std::move(title),
                         j.half_seen() ? "observe the job's other nodes too; a verdict about the whole job needs every rank"
                                       : "see the observer section for what was not seen and why");
  f.coverage = j.coverage;
  f.of_seen = j.half_seen();
  if (priced) {
    // The loss is said and priced; who causes it is for those to tell who see the other ranks.
    // Below, a transfer of this share would be no verdict either.
    if (unresolved >= t.comm_bound_warn) f.severity = Severity::kWarn;
    f.phase = std::string(name(Category::kUnresolved));
    f.cost_share = unresolved;
    f.cost_seconds = j.seconds(unresolved);
    f.first_step = j.first_step();
    f.last_step = j.last_step();
    f.evidence.push_back({"unresolved_share", {}, unresolved, {}, ""});
    f.evidence.push_back({"unresolved_ms_per_step", {}, j.per_step_ms(Category::kUnresolved), {}, ""});
  }
  if (!silent.empty()) f.evidence.push_back({"ranks_without_steps", {}, static_cast<double>(silent.size()), {}, text_ranks(silent)});
  if (missing > 0) f.evidence.push_back({"ranks_not_seen", {}, static_cast<double>(missing), {}, ""});
  out.push_back(std::move(f));
}

}  // namespace stepscope
