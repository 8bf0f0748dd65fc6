// OBSERVER_DEGRADED: what we lost ourselves, said openly.

#include "base/text_format.h"
#include "diagnose/judged.h"

namespace stepscope {

void judge_observer(const Judged& j, std::vector<Finding>& out) {
  const double all = static_cast<double>(j.records + j.lost);
  const double share = all > 0 ? static_cast<double>(j.lost + j.torn) / all : 0;
  if (share < j.limits->lossy_share) return;
  Finding f = Finding::of(FindingKind::kObserverDegraded);
  f.job_scope = true;
  f.confidence = 1;
  f.coverage = j.coverage;
  f.title = formatted("stepscope itself lost {} of its records; figures rest on the rest", text_share(share));
  f.action = "steps shorter than the recorder was made for, or an agent without CPU time: free a core, or use fewer marks";
  f.evidence.push_back({"records_lost", {}, static_cast<double>(j.lost), {}, ""});
  f.evidence.push_back({"records_torn", {}, static_cast<double>(j.torn), {}, ""});
  f.evidence.push_back({"records", {}, static_cast<double>(j.records), {}, ""});
  out.push_back(std::move(f));
}

}  // namespace stepscope
