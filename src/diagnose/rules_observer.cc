// OBSERVER_DEGRADED: what we lost ourselves or could not see, said openly.

#include "base/text_format.h"
#include "diagnose/judged.h"

namespace stepscope {

namespace {

Finding hooks_missing(const UnhookedProcess& process) {
  Finding f = Finding::of(FindingKind::kObserverDegraded);
  f.job_scope = true;
  f.cause = Cause::kHooksNotInstalled;
  f.severity = Severity::kWarn;
  f.confidence = 1;
  f.title = formatted("Torch was loaded, but stepscope's hooks were not installed: nothing of the training was seen");
  f.action =
      "Start the training with stepscope's folder in PYTHONPATH as `stepscope run` sets it, or install stepscope in "
      "its Python, or call stepscope.init() after `import torch`";
  f.evidence.push_back({"pid", {}, static_cast<double>(process.pid), {}, ""});
  f.evidence.push_back({"process", {}, {}, {}, process.command});
  f.evidence.push_back({"reason", {}, {}, {}, process.reason});
  return f;
}

}  // namespace

void judge_observer(const Judged& j, std::vector<Finding>& out) {
  if (j.unhooked && j.over && j.steps_closed == 0) out.push_back(hooks_missing(*j.unhooked));
  const double all = static_cast<double>(j.records + j.lost);
  const double share = all > 0 ? static_cast<double>(j.lost + j.torn) / all : 0;
  if (share < j.limits->lossy_share) return;
  Finding f = Finding::of(FindingKind::kObserverDegraded);
  f.job_scope = true;
  f.confidence = 1;
  f.coverage = j.coverage;
  f.title = formatted("Stepscope itself lost {} of its records; figures rest on the rest", format_percent(share));
  f.action =
      "Steps shorter than the recorder was made for, or an agent without CPU time: free a core, or use fewer marks";
  f.evidence.push_back({"records_lost", {}, static_cast<double>(j.lost), {}, ""});
  f.evidence.push_back({"records_torn", {}, static_cast<double>(j.torn), {}, ""});
  f.evidence.push_back({"records", {}, static_cast<double>(j.records), {}, ""});
  out.push_back(std::move(f));
}

}  // namespace stepscope
