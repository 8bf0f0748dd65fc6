// OBSERVER_DEGRADED: what we lost ourselves or could not see, said openly.

#include "base/text_format.h"
#include "diagnose/rule.h"

namespace stepscope {

namespace {

Finding hooks_missing(const RuleInput& in, const UnhookedProcess& process) {
  FindingBuilder f = in.finding(FindingKind::kObserverDegraded);
  f.about_job()
      .caused_by(Cause::kHooksNotInstalled)
      .graded(Severity::kWarn)
      .confidence(1)
      .title(formatted("Torch was loaded, but stepscope's hooks were not installed: nothing of the training was seen"))
      .action(
          "Start the training with stepscope's folder in PYTHONPATH as `stepscope run` sets it, or install stepscope "
          "in "
          "its Python, or call stepscope.init() after `import torch`")
      .evidence("pid", static_cast<double>(process.pid))
      .evidence("process", process.command)
      .evidence("reason", process.reason);
  return f;
}

}  // namespace

void judge_observer(const RuleInput& in, std::vector<Finding>& out) {
  if (in.unhooked && in.over && in.steps_closed == 0) out.push_back(hooks_missing(in, *in.unhooked));
  const double all = static_cast<double>(in.records + in.lost);
  const double share = all > 0 ? static_cast<double>(in.lost + in.torn) / all : 0;
  if (share < in.limits->lossy_share) return;
  FindingBuilder f = in.finding(FindingKind::kObserverDegraded);
  f.about_job()
      .confidence(1)
      .title(formatted("Stepscope itself lost {} of its records; figures rest on the rest", format_percent(share)))
      .action(
          "Steps shorter than the recorder was made for, or an agent without CPU time: free a core, or use fewer marks")
      .evidence("records_lost", static_cast<double>(in.lost))
      .evidence("records_torn", static_cast<double>(in.torn))
      .evidence("records", static_cast<double>(in.records));
  out.push_back(f);
}

}  // namespace stepscope
