// HOST_BOUND of a model on the host's cores: so many small operators that handing them out takes the time
// (diagnose/small_operators.h). Priced by what operators of one element take. Where torch's recurrent modules may be
// what hands them out it is no verdict, but a reason to ask for lines.
#include "base/text_format.h"
#include "diagnose/rule.h"
#include "diagnose/small_operators.h"

namespace stepscope {

void judge_operators(const RuleInput& in, std::vector<Finding>& out) {
  if (in.rows.size() < static_cast<size_t>(in.limits->min_steps)) return;
  const auto found = small_operators(in);
  if (!found || in.severity(found->share) == Severity::kInfo) return;
  const auto handing_ms = [&](const Cell& cell) { return handing_out_ms(cell, *found); };
  const Severity severity = found->who_known ? in.severity(found->share) : Severity::kInfo;
  FindingBuilder f = in.of_job(FindingKind::kHostBound, Category::kForward, found->share, severity, handing_ms);
  f.no_evidence_yet()
      .caused_by(Cause::kSmallOperators)
      .evidence("operators_per_step", found->per_step)
      .evidence("forward_us_per_operator", found->forward_us)
      .evidence("backward_us_per_operator", found->backward_us)
      .evidence("thread_cpu_share", found->cpu_share)
      .evidence("forward_us_of_one_element", found->least_forward_us)
      .evidence("backward_us_of_one_element", found->least_backward_us)
      .title(
          formatted("{} of the time goes into handing out small operators: {:.0f} per step, of which each takes "
                    "{:.1f} times as long as one of a single element",
                    format_percent(found->share), found->per_step,
                    (found->forward_us + found->backward_us) / (found->least_forward_us + found->least_backward_us)));
  if (found->in_recurrent > 0) f.evidence("recurrent_share", found->in_recurrent);
  if (!found->who_known)
    f.action(
        "See whether loops of the program or torch's own recurrent modules hand them out (py-spy dump): of the "
        "modules, "
        "fewer time steps or a larger batch is what there is to win");
  else
    f.action(
        "Fewer and larger operators: a fused module instead of a loop (nn.LSTM over a cell of one's own), one matrix "
        "product for several, all times or samples at once, a larger batch, torch.compile; faster cores per operator "
        "and more threads win little");
  out.push_back(f);
}

}  // namespace stepscope
