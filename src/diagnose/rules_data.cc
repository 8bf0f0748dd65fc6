// NO_DATA, WARMUP, INCOMPLETE_DATA: too little evidence, said plainly instead of a verdict.
#include <algorithm>
#include <optional>
#include <utility>

#include "base/text_format.h"
#include "diagnose/rules_advice.h"

namespace stepscope {

namespace {

FindingBuilder about_data(const RuleInput& in, FindingKind kind, std::string title, std::string action) {
  return in.finding(kind)
      .about_job()
      .graded(Severity::kInfo)
      .confidence(1)
      .title(std::move(title))
      .action(std::move(action));
}

// Steps that should long have ended: what they cost is in no figure of the steps that have.
void add_standstill(const RuleInput& in, const std::vector<OpenStep>& overdue, FindingBuilder& f) {
  const OpenStep& longest = *std::max_element(overdue.begin(), overdue.end(),
                                              [](const OpenStep& a, const OpenStep& b) { return a.open_s < b.open_s; });
  std::vector<int> ranks;
  for (const OpenStep& open : overdue) ranks.push_back(open.rank);
  const std::string phase = longest.phase == Category::kUnattributed ? "" : formatted(", in {}", name(longest.phase));
  const std::string words = formatted("step {} of {} has not ended after {:.0f} s{}", longest.step, format_ranks(ranks),
                                      longest.open_s, phase);
  if (f->title.empty())
    f.title("S" + words.substr(1));
  else
    f.title_goes_on("; " + words);
  if (f->action.empty())
    f.action("See what these ranks are at: py-spy dump, or the job's log; the figures rest on the steps before");
  const double share = longest.open_s / (longest.open_s + in.run_wall_ms * 1e-3);
  if (share >= in.limits->warn_share) f.at_least(Severity::kWarn);
  if (share > f->cost_share)
    f.costs(share, longest.open_s).in(longest.phase).from(static_cast<int64_t>(longest.step)).until(f->first_step);
  for (const OpenStep& open : overdue)
    f.evidence("open_step_s", open.open_s, open.rank, {}, std::string(name(open.phase)));
}

// Ranks that outnumber the cores of their host wait for each other's turns, whatever they meet in.
std::optional<ThreadsAndCores> taking_turns(const RuleInput& in) {
  if (in.on_device()) return std::nullopt;
  for (ThreadsAndCores& host : threads_by_host(in))
    if (host.ranks > host.cores) return std::move(host);
  return std::nullopt;
}

std::string title_of(const RuleInput& in, double unresolved, bool groups_unknown) {
  if (groups_unknown)
    return formatted(
        "{} of the time goes into operations of which it is not known who takes part in them: into waiting for a rank, "
        "or into the link",
        format_percent(unresolved));
  std::string title = in.half_seen()
                          ? formatted("{} of {} ranks were seen", in.ever_seen, in.world)
                          : formatted("Figures rest on {} of all ranks and steps", format_percent(in.coverage));
  if (unresolved > 0)
    title +=
        formatted("; {} of the time of those seen goes into waiting for {}", format_percent(unresolved),
                  in.half_seen() ? "the others, or into the link: which of them cannot be told"
                                 : "ranks whose part was not seen, or into the link: which of them cannot be told");
  return title;
}

std::string action_of(const RuleInput& in, bool groups_unknown) {
  if (groups_unknown)
    return "See the observer section; the members of groups are known with torch 2.14 and newer. Else compare what the "
           "ranks do between the operations they wait in (Ranks table, py-spy dump)";
  return in.half_seen() ? "Observe the job's other nodes too; a verdict about the whole job needs every rank"
                        : "See the observer section for what was not seen and why";
}

bool failed_at_start(const RuleInput& in) {
  return std::any_of(in.lives->begin(), in.lives->end(), [](const auto& entry) {
    const RankLife& life = entry.second;
    return life.ended && !life.stopped && (!life.clean_exit || !life.exception.empty());
  });
}

}  // namespace

void judge_data(const RuleInput& in, std::vector<Finding>& out) {
  const Thresholds& t = *in.limits;
  if (in.steps_closed == 0) {
    if (!in.over || in.unhooked) return;  // the hooks are missing, not the training: OBSERVER_DEGRADED says so
    if (in.failed_command || failed_at_start(in)) return;  // RANK_LOST says why there is nothing
    out.push_back(
        about_data(in, FindingKind::kNoData, "No training step was seen",
                   "Check that the script trains with torch and an optimizer; mark steps with stepscope.trace_step"));
    return;
  }
  const auto needed = static_cast<uint32_t>(t.warmup_steps + t.min_steps);
  if (in.steps_closed < needed) {
    out.push_back(about_data(in, FindingKind::kWarmup,
                             formatted("{} seen, {} are needed for a verdict", format_steps(in.steps_closed), needed),
                             "Let it run longer"));
    return;
  }
  std::vector<int> silent;
  for (const auto& [rank, life] : *in.lives)
    if (life.steps == 0) silent.push_back(rank);
  const int missing = std::max(in.ranks, in.world) - static_cast<int>(in.lives->size());
  const double unresolved = in.share_of_job(Category::kUnresolved);
  const bool priced = unresolved >= t.warn_share;
  const std::vector<OpenStep> overdue = in.overdue_steps();
  const bool complete = in.coverage >= t.min_coverage && silent.empty() && missing <= 0 && !priced;
  if (complete && overdue.empty()) return;
  if (complete) {
    FindingBuilder f = about_data(in, FindingKind::kIncompleteData, "", "");
    add_standstill(in, overdue, f);
    out.push_back(f);
    return;
  }
  // All is there but who takes part in the operations that ranks wait in.
  const bool groups_unknown = priced && in.coverage >= 1 && silent.empty() && missing <= 0;
  FindingBuilder f = about_data(in, FindingKind::kIncompleteData, title_of(in, priced ? unresolved : 0, groups_unknown),
                                action_of(in, groups_unknown));
  if (in.half_seen()) f.of_those_seen();
  if (priced) {
    // The loss is said and priced; who causes it is for those to tell who see the other ranks.
    // Below, a transfer of this share would be no verdict either.
    const auto turns = groups_unknown ? taking_turns(in) : std::nullopt;
    if (turns) {
      f.title_goes_on(formatted("; {} ranks take turns on {:.0f} cores, which costs such waits by itself", turns->ranks,
                                turns->cores))
          .evidence("cores", turns->cores, {}, {}, turns->host);
    } else if (unresolved >= t.comm_bound_warn) {
      f.graded(Severity::kWarn);
    }
    f.in(Category::kUnresolved)
        .costs(unresolved)
        .throughout()
        .evidence("unresolved_share", unresolved)
        .evidence("unresolved_ms_per_step", in.per_step_ms(Category::kUnresolved));
  }
  if (!silent.empty())
    f.evidence("ranks_without_steps", static_cast<double>(silent.size()), {}, {}, format_ranks(silent));
  if (missing > 0) f.evidence("ranks_not_seen", static_cast<double>(missing));
  if (!overdue.empty()) add_standstill(in, overdue, f);
  out.push_back(f);
}

}  // namespace stepscope
