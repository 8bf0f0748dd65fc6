// RANK_DIVERGENCE: replicas have the same gradients after they were averaged, and so the same norm. Where the norms
// were equal and then differ step after step, some rank trains on gradients that the others do not have, and the
// replicas drift apart. Losses differ between ranks by nature and are no evidence.
#include "base/text_format.h"
#include "diagnose/rule.h"

namespace stepscope {

void judge_divergence(const RuleInput& in, std::vector<Finding>& out) {
  if (!in.numerics) return;
  const Replicas::Divergence d = in.numerics->replicas().divergence();
  if (d.first_step < 0) return;
  FindingBuilder f = in.finding(FindingKind::kRankDivergence);
  const bool some = !d.different.empty();
  if (some)
    f.about(d.different);
  else
    f.about_job();
  f.graded(Severity::kWarn).from(d.first_step).until(d.last_step).confidence(0.9);
  out.push_back(
      f.title(some ? formatted("The gradient norm of {} is not that of the other replicas since step {}",
                               format_ranks(d.different), d.first_step)
                   : formatted("The gradient norms of the replicas differ since step {}", d.first_step))
          .action(
              "See what a rank does apart from the others there: no_sync() left on, parameters frozen or a loss term "
              "used on some ranks only, gradients changed after they were averaged; then restart from a checkpoint "
              "before it, since the parameters differ by now")
          .evidence("grad_norm", d.other, some ? std::optional<int>(d.different.front()) : std::nullopt, d.norm)
          .evidence("differing_steps", static_cast<double>(d.steps))
          .evidence("replicas", format_ranks(d.members)));
}

}  // namespace stepscope
