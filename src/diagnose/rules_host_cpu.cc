// HIGH_CPU: the cores of the host are used up, a state. CPU_CONTENTION: the main thread of a rank is ready to run and
// has no core (a full host, a neighbour, an affinity that is too narrow, a cgroup quota). The time that a rank waits
// for a core is measured by the kernel (run-queue delay), so it is also the cost; what a healthy rank on a full machine
// waits is taken off.
#include <algorithm>
#include <map>

#include "analyze/robust.h"
#include "base/text_format.h"
#include "diagnose/host_view.h"
#include "diagnose/rule.h"

namespace stepscope {

using namespace host;

namespace {

struct Delay {
  const RankProcess* rank = nullptr;
  Window window;
  double share = 0;  // median over the window
  double part = 1;   // the window's share of the rank's steps' time
};

// Over the newest `part` of each rank's time: a neighbour may have come late.
std::vector<Delay> delays_of(const HostFacts& facts, const HostThresholds& limits, double part = 1) {
  std::vector<Delay> out;
  for (const RankProcess& r : facts.ranks) {
    Window w = steady_window(r);
    if (w.empty() || r.run_delay_share.empty()) continue;
    w.begin_ns = std::max(w.begin_ns, r.run_delay_share.points.front().time_ns);
    w.end_ns = std::min(w.end_ns, r.run_delay_share.points.back().time_ns);
    w.begin_ns = w.end_ns - static_cast<int64_t>(part * static_cast<double>(w.end_ns - w.begin_ns));
    std::vector<double> v = values_in(r.run_delay_share, w);
    if (w.empty() || static_cast<double>(v.size()) < limits.min_samples / part) continue;
    out.push_back({&r, w, median(std::move(v)), part});
  }
  return out;
}

double median_delay(const std::vector<Delay>& delays, const RankProcess* without = nullptr) {
  std::vector<double> v;
  for (const Delay& d : delays) {
    if (d.rank != without) v.push_back(d.share);
  }
  return v.empty() ? 0 : median(std::move(v));
}

// Share of the sampled moments in which this rank waited longer for a core than the median of the others.
double lead_share(const Delay& d, const std::vector<Delay>& delays, double margin) {
  std::map<int64_t, std::vector<double>> others;
  for (const Delay& o : delays) {
    if (o.rank == d.rank) continue;
    for (const SamplePoint& p : o.rank->run_delay_share.points) others[p.time_ns].push_back(p.value);
  }
  int paired = 0, ahead = 0;
  for (const SamplePoint& p : d.rank->run_delay_share.points) {
    if (!d.window.holds(p.time_ns)) continue;
    const auto at = others.find(p.time_ns);
    if (at == others.end()) continue;
    ++paired;
    ahead += p.value > median(at->second) + margin;
  }
  return paired ? static_cast<double>(ahead) / paired : 1;
}

int64_t first_step_above(const RankProcess& r, const SampledSeries& series, double limit) {
  const Window w = steady_window(r);
  for (const SamplePoint& p : series.points) {
    if (!w.holds(p.time_ns) || p.value < limit) continue;
    // The value covers the time since the sample before; if it is the first one, the fault is as old as the steps.
    const double step = steps_at(r, p.time_ns);
    if (step < 0) return -1;
    return p.time_ns <= w.begin_ns + 3'000'000'000 ? 0 : static_cast<int64_t>(step);
  }
  return -1;
}

bool saturated(const HostFacts& facts, const HostThresholds& limits) {
  const std::vector<double> v = values_in(facts.host.cpu_share, steady_window(facts));
  return static_cast<double>(v.size()) >= limits.min_samples &&
         share_at_least(v, limits.cpu_saturated_share) >= limits.sustained_share;
}

// Who uses the cores, where it is known what the ranks and their children use.
void blame_for_cores(FindingBuilder& f, const RuleInput& in) {
  const HostFacts& facts = *in.host;
  f.action("Run fewer processes or threads on this host (loader workers, OMP_NUM_THREADS), or use one with more cores");
  const auto ours = cores_of_ranks(facts);
  if (!ours) return;
  const double others = cores_of_others(facts, *ours);
  f.evidence("ranks_cpu_cores", *ours).evidence("other_processes_cpu_cores", others);
  if (others < in.host_limits->other_processes_share * facts.cores) {
    f.caused_by(Cause::kOwnProcesses);
    return;
  }
  f.caused_by(Cause::kOtherProcesses)
      .action(formatted("Other programs on this host use {:.1f} cores: end them or give the job a host of its own",
                        others));
}

// That a host is busy is a state and costs nothing by itself.
void high_cpu(const RuleInput& in, std::vector<Finding>& out) {
  const HostFacts& facts = *in.host;
  FindingBuilder f = in.finding(FindingKind::kHighCpu);
  f.about_job();
  const double busy = median(values_in(facts.host.cpu_share, steady_window(facts)));
  f.title(formatted("The {} cores of the host are {:.0f} % busy", facts.cores, 100 * busy))
      .evidence("cpu_share", busy)
      .evidence("cores", facts.cores);
  blame_for_cores(f, in);
  if (const auto load = facts.host.load1.last_or_null()) f.evidence("load1", *load);
  if (const auto psi = facts.host.cpu_pressure_share.mean_or_null()) f.evidence("cpu_pressure_share", *psi);
  out.push_back(f);
}

// All ranks alike wait for a core.
FindingBuilder of_all_ranks(const RuleInput& in, const std::vector<Delay>& delays) {
  const HostFacts& facts = *in.host;
  const double delay = median_delay(delays), lost = delay - in.host_limits->run_delay_normal_share;
  FindingBuilder f = in.finding(FindingKind::kCpuContention);
  f.about_job()
      .pattern("chronic")
      .costs(lost, lost * seconds_of(steady_window(facts)))
      .coverage(static_cast<double>(delays.size()) / static_cast<double>(facts.ranks.size()))
      .evidence("run_delay_share", delay);
  const auto busy = values_in(facts.host.cpu_share, steady_window(facts));
  if (!busy.empty()) f.evidence("cpu_share", median(busy));
  return f;
}

// What the ranks wait for a core because all of them are busy.
void no_free_core(const RuleInput& in, const std::vector<Delay>& delays, std::vector<Finding>& out) {
  const double delay = median_delay(delays);
  if (delay <= in.host_limits->run_delay_normal_share) return;
  FindingBuilder f = of_all_ranks(in, delays);
  f.title(formatted("Ranks wait {:.0f} % of the time for a core: all {} of the host are busy", 100 * delay,
                    in.host->cores));
  blame_for_cores(f, in);
  out.push_back(f);
}

double mean_above(std::vector<double> values, double base) {
  for (double& v : values) v = std::max(0.0, v - base);
  return values.empty() ? 0 : mean(values);
}

void one_rank(const Delay& d, double others, const RuleInput& in, std::vector<Finding>& out) {
  const HostFacts& facts = *in.host;
  const HostThresholds& limits = *in.host_limits;
  const RankProcess& r = *d.rank;
  FindingBuilder f = in.finding(FindingKind::kCpuContention);
  f.about(r.rank).pattern(d.part == 1 ? "chronic" : "");
  const double base = std::max(others, limits.run_delay_normal_share);
  const Window whole = steady_window(r);
  const double lost = d.part == 1 ? d.share - base : mean_above(values_in(r.run_delay_share, whole), base);
  f.costs(lost, lost * seconds_of(d.part == 1 ? d.window : whole))
      .from(first_step_above(r, r.run_delay_share, base + limits.run_delay_excess_share))
      .title(formatted("Rank {} waits {:.0f} % of the time for a core (the others {:.0f} %)", r.rank, 100 * d.share,
                       100 * others));
  if (facts.ranks.size() == 1)
    f.title(formatted("Rank {} waits {:.0f} % of the time for a core", r.rank, 100 * d.share));
  f.action(r.affinity_cores && *r.affinity_cores <= 2
               ? formatted("It may use {} core(s) only: widen its affinity or move its neighbours to other cores",
                           *r.affinity_cores)
               : "Find the neighbour that runs on its cores, and give the rank cores of its own")
      .evidence("run_delay_share", d.share, r.rank, others);
  const auto switches = values_in(r.involuntary_switches_per_s, d.window);
  if (!switches.empty()) f.evidence("involuntary_switches_per_s", median(switches), r.rank);
  if (r.affinity_cores) f.evidence("affinity_cores", *r.affinity_cores, r.rank);
  const auto own = values_in(r.cpu_cores, d.window), below = values_in(r.worker_cpu_cores, d.window);
  if (!own.empty()) f.evidence("cpu_cores", median(own), r.rank);
  if (!below.empty()) f.evidence("child_processes_cpu_cores", median(below), r.rank);
  out.push_back(f);
}

bool contended(const Delay& d, const std::vector<Delay>& delays, double others, bool full,
               const HostThresholds& limits) {
  if (full && delays.size() == 1) return false;  // no rank to compare with
  const double excess = d.share - std::max(others, limits.run_delay_normal_share);
  if (excess < (full ? limits.run_delay_saturated_excess_share : limits.run_delay_excess_share)) return false;
  if (d.share < limits.run_delay_over_others * others) return false;
  return lead_share(d, delays, limits.run_delay_normal_share) >= limits.run_delay_lead_share;
}

// Every rank waits although the machine has free cores: they share too few of them.
void too_few_cores(const RuleInput& in, const std::vector<Delay>& delays, std::vector<Finding>& out) {
  FindingBuilder f = of_all_ranks(in, delays);
  f.caused_by(Cause::kTooFewCores)
      .title(formatted("Ranks wait {:.0f} % of the time for a core while the host has free ones",
                       100 * median_delay(delays)))
      .action("Check the affinity of the ranks (taskset, numactl, cpuset, OMP settings): they share too few cores");
  for (const Delay& d : delays) {
    if (d.rank->affinity_cores) f.evidence("affinity_cores", *d.rank->affinity_cores, d.rank->rank);
    if (f->evidence.size() >= 10) break;
  }
  out.push_back(f);
}

// Returns the ranks that a quota holds back.
std::vector<int> throttled(const RuleInput& in, const std::vector<Delay>& delays, std::vector<Finding>& out) {
  const HostFacts& facts = *in.host;
  const HostThresholds& limits = *in.host_limits;
  std::vector<int> held;
  for (size_t c = 0; c < facts.cgroups.size(); ++c) {
    const CgroupFacts& g = facts.cgroups[c];
    const Window window = steady_window(facts);
    const std::vector<double> v = values_in(g.throttled_period_share, window);
    if (static_cast<double>(v.size()) < limits.min_samples) continue;
    const double share = median(v);
    if (share < limits.throttled_period_share) continue;
    FindingBuilder f = in.finding(FindingKind::kCpuContention);
    std::vector<Delay> inside;
    for (const RankProcess& r : facts.ranks) {
      if (r.cgroup == static_cast<int>(c)) f.also_about(r.rank);
    }
    for (const Delay& d : delays) {
      if (d.rank->cgroup == static_cast<int>(c)) inside.push_back(d);
    }
    if (f->ranks.empty()) continue;
    held.insert(held.end(), f->ranks.begin(), f->ranks.end());
    const auto lost_ms = values_in(g.throttled_ms_per_s, window);
    // Without run-queue delays: the throttled time is a sum over cores.
    const double lost = !inside.empty()   ? std::max(0.0, median_delay(inside) - limits.run_delay_normal_share)
                        : lost_ms.empty() ? 0
                                          : std::min(1.0, median(lost_ms) * 1e-3 / std::max(1, facts.cores));
    f.costs(lost, lost * seconds_of(window)).caused_by(Cause::kCgroupQuota).pattern("chronic");
    const std::string limit = g.cpu_limit_cores ? formatted(" of {:.2g} cores", *g.cpu_limit_cores) : "";
    f.title(formatted("The CPU quota{} stops {} in {:.0f} % of the scheduler periods", limit, format_ranks(f->ranks),
                      100 * share))
        .action("Raise the CPU limit of the container or job, or run fewer loader workers and threads inside it")
        .evidence("throttled_period_share", share);
    if (!lost_ms.empty()) f.evidence("throttled_ms_per_s", median(lost_ms));
    if (g.cpu_limit_cores) f.evidence("cpu_limit_cores", *g.cpu_limit_cores);
    if (!inside.empty()) f.evidence("run_delay_share", median_delay(inside));
    if (f->ranks.size() == facts.ranks.size() && facts.ranks.size() > 1) {
      f.about_job();
    }
    out.push_back(f);
  }
  return held;
}

// Loader workers without cores: only a hint (info); whether input is short is for the step rules to say.
void starved_workers(const RuleInput& in, std::vector<Finding>& out) {
  const HostFacts& facts = *in.host;
  const HostThresholds& limits = *in.host_limits;
  std::vector<int> ranks;
  std::vector<double> shares;
  for (const RankProcess& r : facts.ranks) {
    const std::vector<double> v = values_in(r.worker_run_delay_share, steady_window(r));
    if (static_cast<double>(v.size()) < limits.min_samples || median(v) < limits.worker_run_delay_share) continue;
    ranks.push_back(r.rank);
    shares.push_back(median(v));
  }
  if (ranks.empty()) return;
  FindingBuilder f = in.finding(FindingKind::kCpuContention);
  f.about(ranks)
      .in(Category::kInputWait)
      .caused_by(Cause::kWorkersWithoutCores)
      .title(formatted("Child processes (loader workers) of {} wait {:.0f} % of the time for a core",
                       format_ranks(ranks), 100 * median(shares)))
      .action("Give the loader workers cores of their own, or use fewer of them");
  for (size_t i = 0; i < ranks.size() && i < 8; ++i) f.evidence("worker_run_delay_share", shares[i], ranks[i]);
  out.push_back(f);
}

}  // namespace

void judge_host_cpu(const RuleInput& in, std::vector<Finding>& out) {
  const HostFacts& facts = *in.host;
  const HostThresholds& limits = *in.host_limits;
  const std::vector<Delay> delays = delays_of(facts, limits);
  const bool full = saturated(facts, limits);
  if (full) {
    high_cpu(in, out);
    no_free_core(in, delays, out);
  }
  const std::vector<int> held = throttled(in, delays, out);
  bool any = !held.empty();
  std::vector<int> named = held;  // with their cause
  for (const double part : {1.0, 0.5, 0.25}) {
    const std::vector<Delay> newest = delays_of(facts, limits, part);
    for (const Delay& d : newest) {
      if (std::find(named.begin(), named.end(), d.rank->rank) != named.end()) continue;
      const double others = median_delay(newest, d.rank);
      if (!contended(d, newest, others, full, limits)) continue;
      one_rank(d, others, in, out);
      named.push_back(d.rank->rank);
      any = true;
    }
  }
  const double least = limits.run_delay_normal_share + limits.run_delay_excess_share;
  const bool all =
      delays.size() > 1 && std::all_of(delays.begin(), delays.end(), [&](const Delay& d) { return d.share >= least; });
  if (all && !any && !full) too_few_cores(in, delays, out);
  starved_workers(in, out);
}

}  // namespace stepscope
