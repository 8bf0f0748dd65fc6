#include "diagnose/host_view.h"

#include <algorithm>
#include <limits>

#include "analyze/robust.h"
#include "base/text_format.h"

namespace stepscope::host {
namespace {

constexpr Window kEverything{std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()};

}  // namespace

Window steady_window(const RankProcess& rank) {
  const auto& p = rank.steps.points;
  if (p.empty()) return kEverything;
  Window w;
  bool begun = false;
  for (size_t i = 0; i < p.size(); ++i) {
    if (p[i].value < 1) continue;
    if (!begun) w.begin_ns = w.end_ns = p[i].time_ns;
    begun = true;
    // Another step came after the sample before: that one was taken while the rank trained, this one perhaps after it.
    if (i > 0 && p[i].value > p[i - 1].value) w.end_ns = std::max(w.begin_ns, p[i - 1].time_ns);
  }
  return w;
}

Window steady_window(const HostFacts& facts) {
  if (facts.ranks.empty()) return kEverything;
  Window hull;
  for (const RankProcess& r : facts.ranks) {
    const Window w = steady_window(r);
    if (w.empty()) continue;
    hull = hull.empty() ? w : Window{std::min(hull.begin_ns, w.begin_ns), std::max(hull.end_ns, w.end_ns)};
  }
  return hull;
}

std::vector<double> values_in(const SampledSeries& series, const Window& window) {
  std::vector<double> out;
  for (const SamplePoint& p : series.points) {
    if (window.holds(p.time_ns)) out.push_back(p.value);
  }
  return out;
}

double share_at_least(const std::vector<double>& values, double limit) {
  if (values.empty()) return 0;
  const auto n = std::count_if(values.begin(), values.end(), [&](double v) { return v >= limit; });
  return static_cast<double>(n) / static_cast<double>(values.size());
}

double steps_at(const RankProcess& rank, int64_t time_ns) {
  const auto& p = rank.steps.points;
  if (p.empty()) return -1;
  const auto it =
      std::lower_bound(p.begin(), p.end(), time_ns, [](const SamplePoint& s, int64_t t) { return s.time_ns < t; });
  if (it == p.begin()) return it->value;
  if (it == p.end()) return p.back().value;
  const auto before = it - 1;
  const double w = static_cast<double>(time_ns - before->time_ns) / static_cast<double>(it->time_ns - before->time_ns);
  return before->value + w * (it->value - before->value);
}

int64_t newest_step(const RankProcess& rank) {
  return rank.steps.empty() || rank.steps.last < 1 ? -1 : static_cast<int64_t>(rank.steps.last) - 1;
}

int64_t newest_step(const HostFacts& facts) {
  int64_t newest = -1;
  for (const RankProcess& r : facts.ranks) newest = std::max(newest, newest_step(r));
  return newest;
}

double seconds_of(const Window& window) {
  return window.empty() ? 0 : static_cast<double>(window.end_ns - window.begin_ns) * 1e-9;
}

std::optional<double> cores_of_ranks(const HostFacts& facts) {
  if (facts.more_ranks) return std::nullopt;
  std::optional<double> sum;
  for (const RankProcess& r : facts.ranks) {
    const Window w = steady_window(r);
    for (const SampledSeries* s : {&r.cpu_cores, &r.worker_cpu_cores}) {
      std::vector<double> v = values_in(*s, w);
      if (!v.empty()) sum = sum.value_or(0) + median(std::move(v));
    }
  }
  return sum;
}

double cores_of_others(const HostFacts& facts, double ours) {
  std::vector<double> busy = values_in(facts.host.cpu_share, steady_window(facts));
  return busy.empty() ? 0 : std::max(0.0, median(std::move(busy)) * facts.cores - ours);
}

HostLoad load_of(const HostFacts& facts) {
  HostLoad load;
  load.cores = facts.cores;
  for (const CgroupFacts& g : facts.cgroups)
    for (const auto& limit : {g.cpu_limit_cores, g.cpuset_cores})
      if (limit && *limit > 0) load.cores = std::min(load.cores, *limit);
  std::vector<double> delays;
  for (const RankProcess& r : facts.ranks) {
    const Window window = steady_window(r);
    if (std::vector<double> v = values_in(r.cpu_cores, window); !v.empty())
      load.rank_cores = std::max(load.rank_cores, median(std::move(v)));
    if (std::vector<double> v = values_in(r.worker_cpu_cores, window); !v.empty())
      load.worker_cores += median(std::move(v));
    if (std::vector<double> v = values_in(r.run_delay_share, window); !v.empty()) delays.push_back(mean(v));
  }
  if (!delays.empty()) load.run_delay = median(std::move(delays));
  if (const auto ours = cores_of_ranks(facts)) load.others_cores = cores_of_others(facts, *ours);
  return load;
}

}  // namespace stepscope::host
