// NO_DATA, WARMUP, INCOMPLETE_DATA: too little evidence, said plainly instead of a verdict.
#include <algorithm>

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

// Steps that should long have ended: what they cost is in no figure of the steps that have.
void add_standstill(const Judged& j, const std::vector<OpenStep>& overdue, Finding& f) {
  const OpenStep& longest = *std::max_element(overdue.begin(), overdue.end(),
                                              [](const OpenStep& a, const OpenStep& b) { return a.open_s < b.open_s; });
  std::vector<int> ranks;
  for (const OpenStep& open : overdue) ranks.push_back(open.rank);
  const std::string phase = longest.phase == Category::kUnattributed ? "" : formatted(", in {}", name(longest.phase));
  const std::string words = formatted("step {} of {} has not ended after {:.0f} s{}", longest.step, format_ranks(ranks),
                                      longest.open_s, phase);
  if (f.title.empty())
    f.title = capitalized(words);
  else
    f.title += "; " + words;
  if (f.action.empty())
    f.action = "See what these ranks are at: py-spy dump, or the job's log; the figures rest on the steps before";
  const double share = longest.open_s / (longest.open_s + j.run_wall_ms * 1e-3);
  if (share >= j.limits->warn_share) f.severity = std::max(f.severity, Severity::kWarn);
  if (share > f.cost_share) {
    f.cost_share = share;
    f.cost_seconds = longest.open_s;
    f.phase = std::string(name(longest.phase));
    f.first_step = f.last_step = longest.step;
  }
  for (const OpenStep& open : overdue)
    f.evidence.push_back({"open_step_s", open.rank, open.open_s, {}, std::string(name(open.phase))});
}

}  // namespace

void judge_data(const Judged& j, std::vector<Finding>& out) {
  const Thresholds& t = *j.limits;
  if (j.steps_closed == 0) {
    if (!j.over || j.unhooked) return;  // the hooks are missing, not the training: OBSERVER_DEGRADED says so
    out.push_back(
        about_data(FindingKind::kNoData, "No training step was seen",
                   "Check that the script trains with torch and an optimizer; mark steps with stepscope.trace_step"));
    return;
  }
  const auto needed = static_cast<uint32_t>(t.warmup_steps + t.min_steps);
  if (j.steps_closed < needed) {
    Finding f = about_data(FindingKind::kWarmup,
                           formatted("{} steps seen, {} are needed for a verdict", j.steps_closed, needed),
                           "Let it run longer");
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
  const std::vector<OpenStep> overdue = j.overdue_steps();
  const bool complete = j.coverage >= t.min_coverage && silent.empty() && missing <= 0 && !priced;
  if (complete && overdue.empty()) return;
  if (complete) {
    Finding f = about_data(FindingKind::kIncompleteData, "", "");
    f.coverage = j.coverage;
    add_standstill(j, overdue, f);
    out.push_back(std::move(f));
    return;
  }
  std::string title = j.half_seen()
                          ? formatted("{} of {} ranks were seen", j.ever_seen, j.world)
                          : formatted("Figures rest on {} of all ranks and steps", format_percent(j.coverage));
  if (priced)
    title += formatted("; {} of the time of those seen goes into waiting for {}", format_percent(unresolved),
                       j.half_seen() ? "the others, or into the link: which of them cannot be told"
                                     : "ranks whose part was not seen, or into the link: which of them cannot be told");
  Finding f =
      about_data(FindingKind::kIncompleteData, std::move(title),
                 j.half_seen() ? "Observe the job's other nodes too; a verdict about the whole job needs every rank"
                               : "See the observer section for what was not seen and why");
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
  if (!silent.empty())
    f.evidence.push_back({"ranks_without_steps", {}, static_cast<double>(silent.size()), {}, format_ranks(silent)});
  if (missing > 0) f.evidence.push_back({"ranks_not_seen", {}, static_cast<double>(missing), {}, ""});
  if (!overdue.empty()) add_standstill(j, overdue, f);
  out.push_back(std::move(f));
}

}  // namespace stepscope
