#include "diagnose/health.h"

#include <algorithm>

#include "base/text_format.h"

namespace stepscope {

namespace {

double compute_share(const Judged& j) {
  return j.share_of_job(Category::kForward) + j.share_of_job(Category::kBackward) + j.share_of_job(Category::kOptimizer);
}

// The dearest finding and what it is called; those that only hint (ADVICE) cost nothing.
HealthCheck costs_check(const Judged& j, const std::vector<Finding>& said) {
  HealthCheck check{.name = "no_costed_finding", .passed = true, .value = 0, .limit = j.limits->healthy_max_cost, .text = ""};
  for (const Finding& f : said) {
    if (urgency_of(f.kind.id()) == Urgency::kHealthy || urgency_of(f.kind.id()) == Urgency::kHint) continue;
    if (f.cost_share > *check.value) check.value = f.cost_share, check.text = f.kind.str();
    if (f.severity == Severity::kInfo && f.cost_share < *check.limit) continue;
    if (check.passed) check.text = f.kind.str();
    check.passed = false;
  }
  return check;
}

// What is neither the model's compute nor said by a finding: its parts are too small for a word each, together they may not be.
HealthCheck rest_check(const Judged& j) {
  double rest = 0;
  HealthCheck check{.name = "other_time", .passed = true, .value = 0, .limit = j.limits->healthy_max_rest, .text = ""};
  double largest = 0;
  for (size_t c = 0; c < kCategoryCount; ++c) {
    const auto category = static_cast<Category>(c);
    if (category == Category::kForward || category == Category::kBackward || category == Category::kOptimizer) continue;
    const double share = j.share_of_job(category);
    rest += share;
    if (share > largest) largest = share, check.text = std::string(name(category));
  }
  check.value = rest;
  check.passed = rest < *check.limit;
  return check;
}

HealthCheck seen_check(const Judged& j, const std::vector<Finding>& said) {
  HealthCheck check{.name = "data_complete", .passed = !j.half_seen() && j.coverage >= j.limits->min_coverage, .value = j.coverage,
                    .limit = j.limits->min_coverage, .text = ""};
  for (const Finding& f : said)
    if (f.kind == FindingKind::kIncompleteData || f.kind == FindingKind::kObserverDegraded) check.passed = false, check.text = f.kind.str();
  return check;
}

// Waiting for each other that no rank is to blame for.
HealthCheck ranks_check(const Judged& j) {
  const std::vector<double> shares = j.shares([](const Cell& cell) { return static_cast<double>(cell.ms[index(Category::kStragglerWait)]); });
  double sum = 0;
  for (double share : shares) sum += share;
  const double mean = shares.empty() ? 0 : sum / static_cast<double>(shares.size());
  return {.name = "ranks_keep_pace", .passed = mean < j.limits->loss_told_share, .value = mean, .limit = j.limits->loss_told_share, .text = ""};
}

HealthCheck steady_check(const std::vector<Finding>& said) {
  HealthCheck check{.name = "steady_step_time", .passed = true, .value = std::nullopt, .limit = std::nullopt, .text = ""};
  for (const Finding& f : said)
    if (f.kind == FindingKind::kStepTimeChange || f.kind == FindingKind::kStepTimeDrift || f.kind == FindingKind::kStepTimeJitter)
      check.passed = false, check.text = f.kind.str();
  return check;
}

}  // namespace

std::vector<HealthCheck> health_checks(const Judged& j, const std::vector<Finding>& said) {
  if (j.steps_closed < static_cast<uint32_t>(j.limits->warmup_steps + j.limits->min_steps)) return {};
  std::vector<HealthCheck> checks = {seen_check(j, said), costs_check(j, said), rest_check(j)};
  if (j.seen.size() > 1) checks.push_back(ranks_check(j));
  checks.push_back(steady_check(said));
  return checks;
}

std::optional<Finding> closing_word(const Judged& j, const std::vector<HealthCheck>& checks) {
  const auto failed = [&](std::string_view name) {
    return std::any_of(checks.begin(), checks.end(), [&](const HealthCheck& c) { return !c.passed && c.name == name; });
  };
  const bool spoken_of = failed("data_complete") || failed("no_costed_finding") || failed("ranks_keep_pace") || failed("steady_step_time");
  if (checks.empty() || spoken_of) return std::nullopt;
  const double compute = compute_share(j);
  const bool scattered = failed("other_time"), bound_by_compute = compute >= j.limits->compute_bound_share;
  Finding f = Finding::of(scattered ? FindingKind::kUnexplainedLoss : bound_by_compute ? FindingKind::kComputeBound : FindingKind::kBalanced);
  f.job_scope = true;
  f.coverage = j.coverage;
  f.confidence = 0.9 * j.coverage;
  f.first_step = j.first_step();
  f.last_step = j.last_step();
  f.evidence.push_back({"compute_share", {}, compute, {}, ""});
  for (const Category c : {Category::kForward, Category::kBackward, Category::kOptimizer})
    f.evidence.push_back({std::string(name(c)) + "_share", {}, j.share_of_job(c), {}, ""});
  if (scattered) {
    f.cost_share = std::max(0.0, 1 - compute);
    f.cost_seconds = j.seconds(f.cost_share);
    f.title = formatted("{} of the time is not the model's own compute, in parts of which none stands out", text_share(f.cost_share));
    f.action = "see the ledger for the parts; the largest is the first to look at";
  } else if (const double optimizer = j.share_of_job(Category::kOptimizer); optimizer >= j.limits->optimizer_heavy_share * compute) {
    // The time is the model's, but not where a model's time belongs: no claim of health.
    f.cause = Cause::kOptimizerHeavy;
    f.title = formatted("The optimizer takes {} of the time, forward and backward together {}", text_share(optimizer),
                        text_share(compute - optimizer));
    f.action = "a fused or foreach optimizer, sparse gradients for large embeddings, accumulation over several backwards, or fewer "
               "trained parameters; see which parameters are large and hardly used";
  } else if (bound_by_compute) {
    f.title = formatted("Healthy: {} of the time is the model's own compute", text_share(compute));
    f.action = "faster kernels, a smaller model or more devices are what is left to win";
  } else {
    f.title = "Healthy: no phase and no rank stands out";
    f.action = "nothing to do";
  }
  return f;
}

}  // namespace stepscope
