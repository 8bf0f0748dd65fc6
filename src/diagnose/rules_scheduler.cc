// SCHEDULER_AHEAD: the learning rate schedule advances before the optimizer has stepped (its first value is skipped),
// or several times for each step of the optimizer (it ends as many times too early).
#include <cmath>

#include "base/text_format.h"
#include "diagnose/rule.h"

namespace stepscope {

namespace {

constexpr double kAlike = 0.1;  // of two paces

bool alike(double a, double b) { return std::abs(a - b) <= kAlike * b; }

}  // namespace

void judge_scheduler(const RuleInput& in, std::vector<Finding>& out) {
  if (!in.numerics) return;
  const SchedulerPace& pace = in.numerics->scheduler();
  if (pace.steps < static_cast<uint64_t>(in.limits->scheduler_min_steps) || pace.optimizer_steps == 0) return;
  const auto steps = static_cast<double>(pace.optimizer_steps);
  const double factor = static_cast<double>(pace.advances) / steps,
               backwards = static_cast<double>(pace.backwards) / steps;
  const bool ahead =
      factor >= in.limits->scheduler_min_factor &&
      static_cast<double>(pace.ahead_steps) >= in.limits->scheduler_steps_share * static_cast<double>(pace.steps);
  if (!ahead && pace.before_first < 0) return;
  FindingBuilder f = in.finding(FindingKind::kSchedulerAhead);
  f.about_job().confidence(0.9);
  if (!ahead) {
    out.push_back(
        f.graded(Severity::kInfo)
            .caused_by(Cause::kBeforeOptimizer)
            .from(pace.before_first)
            .until(pace.before_first)
            .title("The learning rate scheduler advances before the optimizer steps, so that the first value of "
                   "its schedule is skipped")
            .action("Call scheduler.step() after optimizer.step()")
            .evidence("scheduler_advances_per_step", factor));
    return;
  }
  // A launcher's wrapper that advances once per process may be meant so: the schedule was made for one process.
  const bool by_process = in.world > 1 && alike(factor, in.world) && !alike(factor, backwards);
  if (by_process)
    f.caused_by(Cause::kEachProcess);
  else if (backwards > 1 && alike(factor, backwards))
    f.caused_by(Cause::kEachBackward);
  f.graded(by_process ? Severity::kInfo : Severity::kWarn).from(pace.first_ahead).until(pace.last_ahead);
  out.push_back(
      f.title(formatted("The learning rate scheduler advances {:.2g} times for each step of the optimizer", factor))
          .action(by_process
                      ? formatted("Make the schedule {} times as long, or advance it once per step "
                                  "(accelerate: step_scheduler_with_optimizer, split_batches)",
                                  in.world)
                      : "Call scheduler.step() once after each optimizer.step(), not after each batch or backward; "
                        "or make the schedule as many times as long")
          .evidence("scheduler_advances_per_step", factor)
          .evidence("backwards_per_step", backwards)
          .evidence("affected_steps", static_cast<double>(pace.ahead_steps)));
}

}  // namespace stepscope
