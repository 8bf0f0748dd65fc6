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
  int expected = j.ranks;
  for (const auto& [rank, life] : *j.lives) expected = std::max(expected, life.world_size);
  const int missing = expected - static_cast<int>(j.lives->size());
  if (j.coverage >= t.min_coverage && silent.empty() && missing <= 0) return;
  Finding f = about_data(FindingKind::kIncompleteData,
                         formatted("Figures rest on {} of all ranks and steps", text_share(j.coverage)),
                         "see the observer section for what was not seen and why");
  f.coverage = j.coverage;
  if (!silent.empty()) f.evidence.push_back({"ranks_without_steps", {}, static_cast<double>(silent.size()), {}, text_ranks(silent)});
  if (missing > 0) f.evidence.push_back({"ranks_not_seen", {}, static_cast<double>(missing), {}, ""});
  out.push_back(std::move(f));
}

}  // namespace stepscope
