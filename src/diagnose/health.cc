#include "diagnose/health.h"

#include <algorithm>

#include "analyze/category_shares.h"
#include "base/text_format.h"
#include "diagnose/rules_advice.h"

namespace stepscope {

namespace {

// The dearest finding and what it is called; those that only hint (ADVICE) cost nothing.
HealthCheck costs_check(const RuleInput& in, const std::vector<Finding>& said) {
  HealthCheck check{
      .name = "no_costed_finding", .passed = true, .value = 0, .limit = in.limits->healthy_max_cost, .text = ""};
  for (const Finding& f : said) {
    if (urgency_of(f.kind.id()) == Urgency::kHealthy || urgency_of(f.kind.id()) == Urgency::kHint) continue;
    if (f.cost_share > *check.value) check.value = f.cost_share, check.text = f.kind.str();
    if (f.severity == Severity::kInfo && f.cost_share < *check.limit) continue;
    if (check.passed) check.text = f.kind.str();
    check.passed = false;
  }
  return check;
}

// What is neither the model's compute nor said by a finding: its parts are too small for a word each, together they may
// not be.
HealthCheck rest_check(const RuleInput& in, const CategoryShares& shares) {
  double rest = 0;
  HealthCheck check{.name = "other_time", .passed = true, .value = 0, .limit = in.limits->healthy_max_rest, .text = ""};
  double largest = 0;
  for (size_t c = 0; c < kCategoryCount; ++c) {
    const auto category = static_cast<Category>(c);
    if (is_compute(category)) continue;
    const double share = shares[category];
    rest += share;
    if (share > largest) largest = share, check.text = std::string(name(category));
  }
  check.value = rest;
  check.passed = rest < *check.limit;
  return check;
}

HealthCheck seen_check(const RuleInput& in, const std::vector<Finding>& said) {
  HealthCheck check{.name = "data_complete",
                    .passed = !in.half_seen() && in.coverage >= in.limits->min_coverage,
                    .value = in.coverage,
                    .limit = in.limits->min_coverage,
                    .text = ""};
  for (const Finding& f : said)
    if (f.kind == FindingKind::kIncompleteData || f.kind == FindingKind::kObserverDegraded)
      check.passed = false, check.text = f.kind.str();
  return check;
}

// Waiting for each other that no rank is to blame for.
HealthCheck ranks_check(const RuleInput& in, const CategoryShares& shares) {
  const double mean = shares.mean[index(Category::kStragglerWait)], limit = in.limits->loss_told_share;
  return {.name = "ranks_keep_pace", .passed = mean < limit, .value = mean, .limit = limit, .text = ""};
}

HealthCheck steady_check(const std::vector<Finding>& said) {
  HealthCheck check{
      .name = "steady_step_time", .passed = true, .value = std::nullopt, .limit = std::nullopt, .text = ""};
  for (const Finding& f : said)
    if (f.kind == FindingKind::kStepTimeChange || f.kind == FindingKind::kStepTimeDrift ||
        f.kind == FindingKind::kStepTimeJitter)
      check.passed = false, check.text = f.kind.str();
  return check;
}

// What makes the model's compute longer than it must be, where it is known. No claim of health beside it.
std::pair<Cause, std::string> burden_of(const RuleInput& in) {
  if (in.lives->empty()) return {};
  const Configuration first(in.lives->begin()->second);
  if (const ConfigFact* fact = first.find("switches")) {
    if (number(*fact, "anomaly", 0) != 0) return {Cause::kAnomalyMode, "with autograd's anomaly detection on"};
    if (number(*fact, "profiler", 0) != 0) return {Cause::kProfilerOn, "with torch's profiler on"};
  }
  if (const auto few = few_threads(in))
    return {Cause::kFewThreads, formatted("on {:.0f} of {:.0f} cores", few->threads, few->cores)};
  return {};
}

std::optional<Finding> closing_word(const RuleInput& in, const std::vector<HealthCheck>& checks,
                                    const CategoryShares& shares) {
  const auto failed = [&](std::string_view name) {
    return std::any_of(checks.begin(), checks.end(), [&](const HealthCheck& c) { return !c.passed && c.name == name; });
  };
  const bool spoken_of =
      failed("data_complete") || failed("no_costed_finding") || failed("ranks_keep_pace") || failed("steady_step_time");
  if (spoken_of) return std::nullopt;
  double compute = 0;
  for (const Category c : kLaunchPhases) compute += shares[c];
  const bool scattered = failed("other_time"), bound_by_compute = compute >= in.limits->compute_bound_share;
  FindingBuilder f = in.finding(scattered          ? FindingKind::kUnexplainedLoss
                                : bound_by_compute ? FindingKind::kComputeBound
                                                   : FindingKind::kBalanced);
  f.about_job().confidence(0.9 * in.coverage).throughout().evidence("compute_share", compute);
  for (const Category c : kLaunchPhases) f.evidence(std::string(name(c)) + "_share", shares[c]);
  if (scattered) {
    f.costs(std::max(0.0, 1 - compute)).graded(Severity::kInfo);
    f.title(formatted("{} of the time is not the model's own compute, in parts of which none stands out",
                      format_percent(f->cost_share)))
        .action("See the ledger for the parts; the largest is the first to look at");
  } else if (const double optimizer = shares[Category::kOptimizer];
             optimizer >= in.limits->optimizer_heavy_share * compute) {
    // The time is the model's, but not where a model's time belongs: no claim of health.
    f.caused_by(Cause::kOptimizerHeavy)
        .title(formatted("The optimizer takes {} of the time, forward and backward together {}",
                         format_percent(optimizer), format_percent(compute - optimizer)))
        .action(
            "A fused or foreach optimizer, sparse gradients for large embeddings, accumulation over several backwards, "
            "or "
            "fewer "
            "trained parameters; see which parameters are large and hardly used");
  } else if (const auto [cause, words] = burden_of(in); bound_by_compute && cause != Cause::kNone) {
    f.caused_by(cause)
        .title(formatted("{} of the time is the model's own compute, {}", format_percent(compute), words))
        .action("See the advice beside it: the compute itself can be made shorter");
  } else if (bound_by_compute) {
    f.title(formatted("Healthy: {} of the time is the model's own compute", format_percent(compute)))
        .action("Faster kernels, a smaller model or more devices are what is left to win");
  } else {
    f.title("Healthy: no phase and no rank stands out").action("Nothing to do");
  }
  return f;
}

}  // namespace

Health health_of(const RuleInput& in, const std::vector<Finding>& said) {
  if (in.steps_closed < static_cast<uint32_t>(in.limits->warmup_steps + in.limits->min_steps)) return {};
  const CategoryShares shares = category_shares(in.rows);
  Health health;
  health.checks = {seen_check(in, said), costs_check(in, said), rest_check(in, shares)};
  if (in.seen.size() > 1) health.checks.push_back(ranks_check(in, shares));
  health.checks.push_back(steady_check(said));
  health.word = closing_word(in, health.checks, shares);
  return health;
}

}  // namespace stepscope
