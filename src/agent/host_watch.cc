#include "agent/host_watch.h"

#include <algorithm>

#include "diagnose/host_view.h"
#include "diagnose/rules_host.h"

namespace stepscope {
namespace {

constexpr uint64_t kEarlyMemoryNs = 250'000'000;

SamplerOptions options_for(double interval_s) {
  SamplerOptions options;
  const auto interval_ns = static_cast<uint64_t>(std::max(1.0, interval_s) * 1e9);
  options.host_interval_ns = interval_ns;
  if (interval_s <= 1) options.early_memory_interval_ns = kEarlyMemoryNs;
  options.device_interval_ns = interval_ns;
  options.tree_interval_ns = std::max(options.tree_interval_ns, interval_ns);
  return options;
}

constexpr uint64_t kNewsEveryNs = 5'000'000'000;

// Nothing where the driver does not list the rank's process: it has gone, or the list is not to be had.
std::optional<DeviceRoom> room_of(const DeviceFacts& device, int rank) {
  DeviceRoom room;
  room.capacity_bytes = device.memory_total_bytes.value_or(0);
  for (const DeviceProcess& p : device.processes) {
    if (p.rank == rank)
      room.own_bytes += p.memory_bytes;
    else if (p.rank >= 0)
      room.other_ranks_bytes += p.memory_bytes;
    else
      room.others.push_back({p.pid, p.memory_bytes});
  }
  if (room.own_bytes <= 0) return std::nullopt;
  return room;
}

std::map<int, DeviceRoom> rooms_of(const HostFacts& facts) {
  std::map<int, DeviceRoom> rooms;
  for (const RankProcess& rank : facts.ranks) {
    for (const int index : rank.devices) {
      if (index < 0 || static_cast<size_t>(index) >= facts.devices.size()) continue;
      auto room = room_of(facts.devices[static_cast<size_t>(index)], rank.rank);
      if (!room) continue;
      rooms.emplace(rank.rank, std::move(*room));
      break;
    }
  }
  return rooms;
}

std::vector<ProcessUse> uses_of(const HostFacts& facts) {
  std::vector<ProcessUse> uses;
  for (const RankProcess& process : facts.ranks) {
    ProcessUse use{.rank = process.rank,
                   .rss_peak_bytes = process.rss_bytes.max_or_null(),
                   .uss_peak_bytes = process.uss_bytes.max_or_null()};
    const int cores = process.affinity_cores.value_or(facts.cores);
    if (const auto used = process.cpu_cores.mean_or_null(); used && cores > 0)
      use.cpu_share = std::min(1.0, *used / cores);
    uses.push_back(use);
  }
  return uses;
}

}  // namespace

HostWatch::HostWatch(double interval_s, std::map<std::string, double> thresholds)
    : sampler_(options_for(interval_s)), thresholds_(std::move(thresholds)) {}

void HostWatch::sample(const Pipeline& pipeline, uint64_t now_ns) {
  for (const Pipeline::TailId id : pipeline.tails()) {
    const RankSource& tail = pipeline.tail(id);
    if (!tail.local() || !pipeline.counts_as_rank(id)) continue;
    const blackbox::Identity& identity = tail.identity();
    Followed& followed = followed_[identity.rank];
    if (followed.pid != identity.pid && !tail.ended()) {
      sampler_.add_rank(identity.rank, identity.pid, identity.pid_start_ticks);
      followed = {identity.pid, true};
    }
    if (followed.pid != identity.pid) continue;
    if (tail.ended() && followed.alive) {
      sampler_.remove_rank(identity.rank);
      followed.alive = false;
    }
    sampler_.set_steps(identity.rank, tail.steps());
  }
  if (!followed_.empty() && now_ns >= sampler_.next_due_ns()) sampler_.sample(now_ns);
}

void HostWatch::tell_news(Engine& engine, uint64_t now_ns) {
  if (now_ns < news_due_ns_) return;
  news_due_ns_ = now_ns + kNewsEveryNs;
  tell_all(engine);
}

void HostWatch::tell_all(Engine& engine) {
  if (!followed_.empty()) tell(facts_so_far(), engine);
}

void HostWatch::tell(const HostFacts& facts, Engine& engine) {
  for (auto& [rank, room] : rooms_of(facts)) engine.set_device_room(rank, std::move(room));
  load_ = host::load_of(facts);
  engine.set_host_load(facts.hostname, *load_);
}

HostFacts HostWatch::facts_so_far() const {
  HostFacts facts = sampler_.facts();
  facts.more_ranks = more_ranks_;
  return facts;
}

void HostWatch::judge(Engine& engine) {
  if (followed_.empty()) return;
  facts_ = facts_so_far();
  tell(facts_, engine);
  findings_ = judge_host(facts_, HostThresholds::with(thresholds_));
  for (const Finding& finding : findings_) engine.add_external(finding);
  Section system = system_section(facts_, findings_), process = process_section(facts_, findings_);
  system_ = system.values;
  process_ = process.values;
  engine.set_section(std::move(system));
  engine.set_section(std::move(process));
}

HostSight HostWatch::sight() const {
  if (followed_.empty()) return {};
  return {.findings = findings_, .uses = uses_of(facts_), .rooms = rooms_of(facts_)};
}

void HostWatch::fill(RunContext& context) const {
  context.system = system_;
  context.process = process_;
  context.processes = uses_of(facts_);
  for (const std::string& reason : facts_.unavailable) context.unavailable(reason);
}

void HostWatch::fill_so_far(const HostFacts& facts, Snapshot& s) const {
  if (followed_.empty()) return;
  const std::vector<Finding> findings = judge_host(facts, HostThresholds::with(thresholds_));
  for (Section section : {system_section(facts, findings), process_section(facts, findings)}) {
    (section.name == "system" ? s.system : s.process) = section.values;
    std::erase_if(s.sections, [&](const Section& known) { return known.name == section.name; });
    s.sections.push_back(std::move(section));
  }
  for (const ProcessUse& use : uses_of(facts)) {
    const auto rank = std::ranges::find(s.ranks, use.rank, &RankStat::rank);
    if (rank == s.ranks.end()) continue;
    rank->cpu_share = use.cpu_share;
    rank->rss_peak_bytes = use.rss_peak_bytes;
    rank->uss_peak_bytes = use.uss_peak_bytes;
  }
  std::optional<double> largest;
  for (const RankProcess& rank : facts.ranks)
    if (const auto rss = rank.rss_bytes.last_or_null()) largest = std::max(largest.value_or(0), *rss);
  s.process["rss_bytes"] = largest;
  if (const auto available = facts.host.memory_available_bytes.last_or_null(); available && facts.memory_total_bytes)
    s.system["memory_used_bytes"] = *facts.memory_total_bytes - *available;
}

}  // namespace stepscope
