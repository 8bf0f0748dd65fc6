// Advice on processes: threads, destroy_process_group.
#include <algorithm>
#include <map>

#include "base/text_format.h"
#include "diagnose/rules_advice.h"

namespace stepscope {

namespace {

struct Host {
  double threads = 0, cores = 0;
  int ranks = 0;
};

void threads(const RuleInput& in, std::vector<Advice>& out) {
  std::map<std::string, Host> hosts;
  for (const auto& [rank, life] : *in.lives) {
    const ConfigFact* fact = Configuration(life).find("threads");
    if (!fact) continue;
    Host& host = hosts[life.hostname];
    host.threads += number(*fact, "torch", 0);
    host.cores = std::max(host.cores, number(*fact, "cores", 0));
    ++host.ranks;
  }
  for (const auto& [name, host] : hosts) {
    if (host.ranks < 2 || host.cores <= 0 || host.threads <= host.cores) continue;
    out.push_back(
        {Cause::kThreads,
         formatted("{} ranks with {:.0f} threads in all share {:.0f} cores", host.ranks, host.threads, host.cores),
         formatted("OMP_NUM_THREADS={:.0f}, or torch.set_num_threads", std::max(1.0, host.cores / host.ranks)),
         {{"threads", {}, host.threads, {}, ""}, {"cores", {}, host.cores, {}, ""}, {"host", {}, {}, {}, name}}});
    return;
  }
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

std::vector<Advice> advice_on_processes(const RuleInput& in) {
  std::vector<Advice> out;
  threads(in, out);
  destroy_process_group(in, out);
  return out;
}

}  // namespace stepscope
