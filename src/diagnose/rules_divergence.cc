// RANK_DIVERGENCE: replicas have the same gradients after they were averaged, and so the same norm. Where the norms
// were equal and then differ step after step, some rank trains on gradients that the others do not have, and the
// replicas drift apart. Losses differ between ranks by nature and are no evidence.
//
// Or replicas whose optimizers step with different learning rates: DDP and FSDP average gradients, not what is done
// with them.
//
// Or a rank that left an optimizer's step out which the others took: gradients are averaged, steps are not.
//
// Or parameters of a model in DDP that train and that DDP does not average, and whose values differ between ranks.
#include <algorithm>
#include <map>
#include <tuple>

#include "base/text_format.h"
#include "diagnose/rules_advice.h"

namespace stepscope {

namespace {

struct Outside {
  std::map<int, double> sums;  // by rank, at the same step
  double parameters = 0, bytes = 0, step = 0;
  std::string first;
};

// Of the first model of which ranks of one group tell different values.
std::optional<Outside> different_outside_ddp(const RuleInput& in) {
  std::map<std::tuple<uint64_t, std::string, double, double>, Outside> models;
  for (const auto& [rank, life] : *in.lives)
    for (const ConfigFact& fact : life.configuration) {
      if (fact.subject != "ddp_outside") continue;
      const double step = number(fact, "step", 0), parameters = number(fact, "parameters", 0);
      Outside& o = models[{fact.id, text(fact, "group"), step, parameters}];
      o.sums[rank] = number(fact, "sum", 0);
      o.parameters = parameters, o.bytes = number(fact, "bytes", 0), o.step = step, o.first = text(fact, "first");
    }
  for (const auto& [model, o] : models)
    for (const auto& [rank, sum] : o.sums)
      if (sum != o.sums.begin()->second) return o;
  return std::nullopt;
}

bool judge_outside_ddp(const RuleInput& in, std::vector<Finding>& out) {
  const auto found = different_outside_ddp(in);
  if (!found) return false;
  FindingBuilder f = in.finding(FindingKind::kRankDivergence);
  f.about_job().graded(Severity::kWarn).from(0).confidence(0.95);
  const bool one = found->parameters == 1;
  f.title(formatted("{:.0f} parameter{} of the model in DDP ({}{}, {}) train{} outside of it: {} values differ between "
                    "ranks, their gradients are not averaged",
                    found->parameters, one ? "" : "s", found->first, one ? "" : ", ...", format_bytes(found->bytes),
                    one ? "s" : "", one ? "its" : "their"))
      .action(
          "Change the model before it is wrapped: DDP averages the parameters that it had, and that required "
          "gradients, "
          "when it was made. What was trained so far differs from rank to rank")
      .evidence("parameters_outside_ddp", found->parameters)
      .evidence("outside_bytes", found->bytes)
      .evidence("looked_at_step", found->step);
  for (const auto& [rank, sum] : found->sums) {
    f.evidence("sum_of_values", sum, rank);
    if (f->evidence.size() >= 12) break;
  }
  out.push_back(f);
  return true;
}

bool judge_left_out(const RuleInput& in, std::vector<Finding>& out) {
  LeftOut all;
  FindingBuilder f = in.finding(FindingKind::kRankDivergence);
  for (const auto& [rank, left] : in.numerics->left_out()) {
    f.also_about(rank).evidence("optimizer_steps_left_out", static_cast<double>(left.steps), rank);
    if (all.first_step < 0 || left.first_step < all.first_step) all.first_step = left.first_step;
    all.last_step = std::max(all.last_step, left.last_step), all.steps += left.steps;
  }
  if (all.steps == 0) return false;
  f.graded(Severity::kWarn).from(all.first_step).until(all.last_step).confidence(0.95);
  out.push_back(f.title(formatted("{} left {} of the optimizer out that the others took, the first at step {}: the "
                                  "replicas differ since then",
                                  capitalized(format_ranks(f->ranks)), format_steps(all.steps), all.first_step))
                    .action("Decide on all ranks together whether a step is taken (all-reduce the loss, the norm or "
                            "the flag that decides); then restart from a checkpoint before it"));
  return true;
}

// What is said of replicas whose figure differs: of those that have not that of most, or of all where there is no most.
FindingBuilder of_replicas(const RuleInput& in, const Replicas::Divergence& d, const char* figure, double confidence) {
  FindingBuilder f = in.finding(FindingKind::kRankDivergence);
  const bool some = !d.different.empty();
  if (some)
    f.about(d.different);
  else
    f.about_job();
  f.graded(Severity::kWarn).from(d.first_step).until(d.last_step).confidence(confidence);
  f.evidence(figure, d.other, some ? std::optional<int>(d.different.front()) : std::nullopt, d.norm)
      .evidence("differing_steps", static_cast<double>(d.steps))
      .evidence("replicas", format_ranks(d.members));
  return f;
}

// Ranks with the same rate at first may still train different models, each by a schedule of its own.
bool are_replicas(const RuleInput& in, const std::vector<int>& ranks) {
  return std::all_of(ranks.begin(), ranks.end(), [&](int rank) {
    const auto life = in.lives->find(rank);
    return life != in.lives->end() && Configuration(life->second).data_ranks() >= in.world;
  });
}

bool judge_learning_rates(const RuleInput& in, std::vector<Finding>& out) {
  const Replicas::Divergence d = in.numerics->rates().divergence();
  if (d.first_step < 0 || !are_replicas(in, d.members)) return false;
  out.push_back(
      of_replicas(in, d, "learning_rate", 0.95)
          .title(
              d.different.empty()
                  ? formatted("The optimizers of the replicas step with different learning rates since step {} "
                              "({:.3g} and {:.3g})",
                              d.first_step, d.norm, d.other)
                  : formatted("The optimizer of {} steps with a learning rate of {:.3g}, those of the other replicas "
                              "with {:.3g}, since step {}",
                              format_ranks(d.different), d.other, d.norm, d.first_step))
          .action(
              "Let all ranks decide alike: all-reduce the metric that ReduceLROnPlateau is given, or the flag by which "
              "the rate is changed; then restart from a checkpoint before it, since the parameters differ by now"));
  return true;
}

}  // namespace

void judge_divergence(const RuleInput& in, std::vector<Finding>& out) {
  if (judge_outside_ddp(in, out) || !in.numerics || judge_left_out(in, out) || judge_learning_rates(in, out)) return;
  const Replicas::Divergence d = in.numerics->replicas().divergence();
  if (d.first_step < 0) return;
  out.push_back(
      of_replicas(in, d, "grad_norm", 0.9)
          .title(d.different.empty()
                     ? formatted("The gradient norms of the replicas differ since step {}", d.first_step)
                     : formatted("The gradient norm of {} is not that of the other replicas since step {}",
                                 format_ranks(d.different), d.first_step))
          .action(
              "See what a rank does apart from the others there: no_sync() left on, parameters frozen or a loss term "
              "used on some ranks only, gradients changed after they were averaged; then restart from a checkpoint "
              "before it, since the parameters differ by now"));
}

}  // namespace stepscope
