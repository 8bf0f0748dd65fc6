// Advice on processes: threads, few_threads, destroy_process_group.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "align/number_ranges.h"
#include "base/text_format.h"
#include "diagnose/rules_advice.h"
#include "diagnose/small_operators.h"

namespace stepscope {

namespace {

void threads(const RuleInput& in, std::vector<Advice>& out) {
  for (const ThreadsAndCores& host : threads_by_host(in)) {
    if (host.ranks < 2 || host.threads <= host.cores) continue;
    out.push_back(
        {Cause::kThreads,
         formatted("{} ranks with {:.0f} threads in all share {:.0f} core{}", host.ranks, host.threads, host.cores,
                   host.cores == 1 ? "" : "s"),
         formatted("OMP_NUM_THREADS={:.0f}, or torch.set_num_threads", std::max(1.0, host.cores / host.ranks)),
         {{"threads", {}, host.threads, {}, ""}, {"cores", {}, host.cores, {}, ""}, {"host", {}, {}, {}, host.host}}});
    return;
  }
}

void too_few_threads(const RuleInput& in, std::vector<Advice>& out) {
  const auto few = few_threads(in);
  if (!few) return;
  out.push_back(
      {Cause::kFewThreads,
       formatted("The model computes on {:.0f} thread{} although {:.0f} cores may be used", few->threads,
                 few->threads == 1 ? "" : "s", few->cores),
       formatted("OMP_NUM_THREADS={:.0f} (launchers set it to 1), or torch.set_num_threads, where the other "
                 "cores are idle",
                 std::max(1.0, std::floor(few->cores / few->ranks))),
       {{"threads", {}, few->threads, {}, ""}, {"cores", {}, few->cores, {}, ""}, {"host", {}, {}, {}, few->host}}});
}

void destroy_process_group(const RuleInput& in, std::vector<Advice>& out) {
  if (!in.over) return;
  std::vector<int> ranks;
  for (const auto& [rank, life] : *in.lives) {
    const bool orderly =
        life.ended && life.clean_exit && life.exception.empty() && !life.stopped && life.exit_code <= 0;
    if (!orderly) return;
    if (life.init_end_ns > 0 && !life.group_destroyed) ranks.push_back(rank);
  }
  if (ranks.empty()) return;
  out.push_back(
      {Cause::kDestroyProcessGroup,
       capitalized(format_ranks(ranks)) + " ended without torch.distributed.destroy_process_group()",
       "Call it last: without it a rank may leave while others still talk to it, and NCCL may hang or abort at exit",
       {{"ranks", {}, static_cast<double>(ranks.size()), {}, ""}}});
}

}  // namespace

namespace {

// Ranks that are bound to cores of their own share none: together they have the union, unless a quota allows less.
class CoresOfHost {
 public:
  void add(const ConfigFact& fact) {
    const double cores = number(fact, "cores", 0);
    const std::vector<int> cpus = parse_ranges(text(fact, "cpus"));
    most_ = std::max(most_, cores);
    by_affinity_ = by_affinity_ && !cpus.empty() && static_cast<double>(cpus.size()) <= cores;
    all_.insert(cpus.begin(), cpus.end());
  }
  double count() const { return by_affinity_ ? static_cast<double>(all_.size()) : most_; }

 private:
  bool by_affinity_ = true;
  double most_ = 0;
  std::set<int> all_;
};

}  // namespace

std::vector<ThreadsAndCores> threads_by_host(const RuleInput& in) {
  std::map<std::string, ThreadsAndCores> hosts;
  std::map<std::string, CoresOfHost> cores;
  for (const auto& [rank, life] : *in.lives) {
    const ConfigFact* fact = Configuration(life).find("threads");
    if (!fact) continue;
    ThreadsAndCores& host = hosts[life.hostname];
    host.host = life.hostname;
    host.threads += number(*fact, "torch", 0);
    CoresOfHost& here = cores[life.hostname];
    here.add(*fact);
    host.cores = here.count();
    ++host.ranks;
  }
  std::vector<ThreadsAndCores> out;
  for (auto& [name, host] : hosts)
    if (host.cores > 0) out.push_back(std::move(host));
  return out;
}

std::optional<ThreadsAndCores> few_threads(const RuleInput& in) {
  if (in.on_device() || in.half_seen()) return std::nullopt;
  double compute = 0;
  for (const Category c : {Category::kForward, Category::kBackward, Category::kOptimizer})
    compute += in.share_of_job(c);
  if (compute < in.limits->compute_bound_share) return std::nullopt;
  if (small_operators(in)) return std::nullopt;  // too small to be shared among threads
  for (ThreadsAndCores& host : threads_by_host(in))
    if (host.threads > 0 && host.threads <= in.limits->advice_few_threads_share * host.cores) return host;
  return std::nullopt;
}

std::vector<Advice> advice_on_processes(const RuleInput& in) {
  std::vector<Advice> out;
  threads(in, out);
  too_few_threads(in, out);
  destroy_process_group(in, out);
  return out;
}

}  // namespace stepscope
