#include "report/run_noise.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "align/rank_step.h"

namespace stepscope {
namespace {

constexpr double kMedianFactor = 1.2533;  // standard error of a median against that of a mean, sqrt(pi / 2)
constexpr double kUpperTenth = 1.2816;    // of a normal distribution, in standard deviations
constexpr double kStepsAlike = 4;         // neighbours resemble each other: so many count as one
constexpr double kMostIndependent = 100;
constexpr uint64_t kFirstSteps = 5;  // still warming up
constexpr uint32_t kUnlikeTags =
    kTagCompile | kTagCheckpoint | kTagValidation | kTagEpochStart | kTagSkipped | kTagProvisional | kTagLossy;

double squared(double x) { return x * x; }

// Not of nothing.
double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<long>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return values.size() % 2 == 1 ? *middle : (*middle + *std::max_element(values.begin(), middle)) / 2;
}

double deviation(const std::vector<double>& values) {
  const double middle = mean_of(values);
  double sum = 0;
  for (const double v : values) sum += squared(v - middle);
  return std::sqrt(sum / static_cast<double>(values.size() - 1));
}

std::optional<double> value_in(const std::map<std::string, std::optional<double>>& values, const char* name) {
  const auto found = values.find(name);
  return found == values.end() || !found->second || !std::isfinite(*found->second) ? std::nullopt : found->second;
}

std::vector<double> plain_steps_ms(const Snapshot& run) {
  std::vector<double> out;
  for (const StepPoint& p : run.recent) {
    if (p.step >= kFirstSteps && !(p.tags & kUnlikeTags) && std::isfinite(p.wall_ms)) out.push_back(p.wall_ms);
  }
  return out;
}

// Of the medians of stretches.
std::optional<double> stretch_deviation_ms(const std::vector<double>& steps_ms) {
  const size_t each = steps_ms.size() / kNoiseStretches;
  if (each < kLeastStretchSteps) return std::nullopt;
  std::vector<double> medians;
  for (size_t left = kNoiseStretches; left > 0; --left) {
    const auto begin = steps_ms.end() - static_cast<long>(left * each);
    medians.push_back(median_of({begin, begin + static_cast<long>(each)}));
  }
  return deviation(medians);
}

// Of Student's t, 2 % above it.
double t_quantile(size_t freedom) {
  constexpr double few[] = {15.895, 4.849, 3.482, 2.999, 2.757, 2.612, 2.517, 2.449, 2.398};
  if (freedom <= std::size(few)) return few[freedom - 1];
  constexpr double z = 2.0537;  // the first terms of the expansion about the normal distribution
  const auto d = static_cast<double>(freedom);
  return z + (z * z * z + z) / (4 * d) + (5 * std::pow(z, 5) + 16 * z * z * z + 3 * z) / (96 * d * d);
}

}  // namespace

std::optional<double> median_error(const Snapshot& run) {
  const auto p50 = run.wall_ms.p50, p90 = run.wall_ms.p90;
  if (!p50 || !p90 || !std::isfinite(*p50) || !std::isfinite(*p90) || !(*p50 > 0) || run.steps_analyzed == 0)
    return std::nullopt;
  const double sigma = std::max(0.0, *p90 - *p50) / kUpperTenth / *p50;
  const double independent = std::clamp(static_cast<double>(run.steps_analyzed) / kStepsAlike, 1.0, kMostIndependent);
  const double plain = kMedianFactor * sigma / std::sqrt(independent);
  const std::vector<double> steps_ms = plain_steps_ms(run);
  const auto found = stretch_deviation_ms(steps_ms);
  if (!found) return plain;
  const double middle = median_of(steps_ms);
  if (!(middle > 0)) return plain;
  return std::max(plain, *found / middle / std::sqrt(static_cast<double>(kNoiseStretches)));
}

double crowding(const Snapshot& run) {
  const auto delay = value_in(run.process, "run_delay_worst_share"), busy = value_in(run.system, "cpu_share"),
             cores = value_in(run.system, "cores"), own = value_in(run.process, "cpu_cores");
  if (!delay || !busy || !cores || !own || run.job_clock != "cpu") return 0;
  const double used = *busy * *cores;
  const double ranks = static_cast<double>(run.ranks.size()) / std::max(1, run.run.nodes);
  const double ours = ranks * (*own + value_in(run.process, "worker_cpu_cores").value_or(0));
  return used > 0 ? std::clamp(*delay * (1 - ours / used), 0.0, 1.0) : 0;
}

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

TwoMeans two_means(std::span<const double> a, std::span<const double> b) {
  TwoMeans out{.a = mean_of(a), .b = mean_of(b), .runs_a = a.size(), .runs_b = b.size()};
  if (out.freedom() == 0) return out;
  double sum = 0;
  for (const double v : a) sum += squared(v - out.a);
  for (const double v : b) sum += squared(v - out.b);
  out.deviation = std::sqrt(sum / static_cast<double>(out.freedom()));
  return out;
}

double chance_difference(const TwoMeans& means) {
  const double runs = 1 / static_cast<double>(means.runs_a) + 1 / static_cast<double>(means.runs_b);
  return t_quantile(means.freedom()) * means.deviation * std::sqrt(runs);
}

}  // namespace stepscope
