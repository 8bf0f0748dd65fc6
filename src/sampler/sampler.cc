#include "sampler/sampler.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "base/host_name.h"
#include "sampler/cgroup.h"
#include "sampler/devices.h"
#include "sampler/host.h"
#include "sampler/process_tree.h"
#include "sampler/rank_probe.h"
#include "sampler/visible_devices.h"

namespace stepscope {
namespace {

constexpr uint64_t kMinMapsIntervalNs = 10'000'000'000;
constexpr uint64_t kCudaSearchNs = 5'000'000'000;
constexpr int kCudaSearches = 120;  // ten minutes; a rank that has not opened CUDA by then computes elsewhere
constexpr size_t kMaxCgroups = 64;
constexpr uint64_t kEarlyNs = 60'000'000'000;
constexpr size_t kFewRanks = 16;  // one small file each
// Reading memory maps is the dearest thing we do: a fifth of a percent of a core over time, with a reserve for the
// start.
constexpr double kMapsShare = 0.002;
constexpr double kMapsReserveNs = 300e6;

}  // namespace

struct Sampler::Impl {
  struct Rank {
    explicit Rank(RankProbe p) : probe(std::move(p)) {}
    RankProbe probe;
    int cgroup = -1;
    DeviceEnvironment environment;
    bool looks_for_cuda = false;
    int searches = 0;
    uint64_t next_search_ns = 0;
  };

  explicit Impl(SamplerOptions o)
      : options(std::move(o)),
        proc(::open(options.roots.proc.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)),
        host(options.roots, options.series_capacity),
        tree(options.roots.proc),
        devices(options.nvml, options.device_interval_ns, options.series_capacity),
        hostname(host_name()) {
    options.maps_interval_ns = std::max(options.maps_interval_ns, kMinMapsIntervalNs);
  }

  int cgroup_of(int pid);
  void search_tree(uint64_t now);
  void search_cuda(uint64_t now);
  void sample_host(uint64_t now);
  void sample_memory(uint64_t now);
  void plan_memory(uint64_t now);
  void read_maps(uint64_t now);
  size_t followed() const;

  SamplerOptions options;
  Fd proc;
  SmallFile file;
  HostProbe host;
  ProcessTree tree;
  Devices devices;
  std::string hostname;
  std::map<int, Rank> ranks;
  std::vector<CgroupProbe> cgroups;
  uint64_t host_due_ns = 0, tree_due_ns = 0, memory_due_ns = UINT64_MAX;
  uint64_t first_ns = 0, last_ns = 0, samples = 0, not_followed = 0;
  double maps_credit_ns = kMapsReserveNs;
  std::vector<int> roots;
  std::vector<RankProbe::Found> found;
};

Sampler::Sampler(SamplerOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Sampler::~Sampler() = default;
Sampler::Sampler(Sampler&&) noexcept = default;
Sampler& Sampler::operator=(Sampler&&) noexcept = default;

int Sampler::Impl::cgroup_of(int pid) {
  const auto text = file.read(proc.get(), (std::to_string(pid) + "/cgroup").c_str());
  if (!text) return -1;
  const CgroupPaths paths = parse_cgroup_paths(*text);
  if (paths == CgroupPaths{}) return -1;
  for (size_t i = 0; i < cgroups.size(); ++i) {
    if (cgroups[i].paths() == paths) return static_cast<int>(i);
  }
  if (cgroups.size() >= kMaxCgroups) return -1;
  cgroups.emplace_back(options.roots, paths, options.series_capacity);
  return static_cast<int>(cgroups.size()) - 1;
}

void Sampler::add_rank(int rank, int pid, uint64_t start_ticks, int local_rank) {
  Impl& m = *impl_;
  auto at = m.ranks.find(rank);
  if (at == m.ranks.end()) {
    if (m.ranks.size() >= m.options.max_ranks || m.followed() >= m.options.max_processes) {
      ++m.not_followed;
      return;
    }
    at = m.ranks.emplace(rank, Impl::Rank(RankProbe(rank, m.options.series_capacity))).first;
  }
  Impl::Rank& r = at->second;
  r.probe.attach(pid, start_ticks);
  r.cgroup = m.cgroup_of(pid);
  const auto environment = m.file.read(m.proc.get(), (std::to_string(pid) + "/environ").c_str());
  r.environment = parse_device_environment(environment.value_or(""));
  if (local_rank >= 0) r.environment.local_rank = local_rank;
  r.looks_for_cuda = m.options.devices;
  r.searches = 0;
  r.next_search_ns = 0;
  m.tree_due_ns = 0;
}

void Sampler::remove_rank(int rank) {
  const auto at = impl_->ranks.find(rank);
  if (at == impl_->ranks.end()) return;
  at->second.probe.detach();
  at->second.looks_for_cuda = false;
  impl_->devices.remove_rank(rank);
}

void Sampler::set_steps(int rank, uint64_t completed) {
  const auto at = impl_->ranks.find(rank);
  if (at != impl_->ranks.end()) at->second.probe.set_steps(completed);
}

size_t Sampler::Impl::followed() const {
  size_t count = 0;
  for (const auto& [number, rank] : ranks) count += rank.probe.process_count();
  return count;
}

void Sampler::Impl::search_tree(uint64_t now) {
  roots.clear();
  for (const auto& [number, rank] : ranks) {
    if (rank.probe.attached()) roots.push_back(rank.probe.pid());
  }
  std::sort(roots.begin(), roots.end());
  const auto& descendants = tree.refresh(roots, ::getpid(), file);
  uint64_t left_out = 0;
  for (auto& [number, rank] : ranks) {
    if (!rank.probe.attached()) continue;
    found.clear();
    for (const auto& d : descendants) {
      if (d.root == rank.probe.pid()) found.push_back({d.pid, d.start_ticks});
    }
    const size_t used = followed();
    left_out += rank.probe.set_workers(found, options.max_processes > used ? options.max_processes - used : 0, now);
  }
  not_followed = std::max(not_followed, left_out);
  tree_due_ns = now + options.tree_interval_ns;
}

void Sampler::Impl::search_cuda(uint64_t now) {
  for (auto& [number, rank] : ranks) {
    if (!rank.looks_for_cuda || !rank.probe.attached() || now < rank.next_search_ns) continue;
    rank.next_search_ns = now + kCudaSearchNs;
    rank.looks_for_cuda = ++rank.searches < kCudaSearches;
    if (!uses_cuda(options.roots.proc, rank.probe.pid())) continue;
    rank.looks_for_cuda = false;
    devices.add_rank(number, rank.probe.pid(), rank.environment, now);
  }
}

void Sampler::Impl::read_maps(uint64_t now) {
  if (last_ns > 0)
    maps_credit_ns = std::min(kMapsReserveNs, maps_credit_ns + kMapsShare * static_cast<double>(now - last_ns));
  for (size_t i = 0; i < options.max_processes && maps_credit_ns > 0; ++i) {
    RankProbe* first = nullptr;
    uint64_t due = now + 1;
    for (auto& [number, rank] : ranks) {
      const uint64_t d = rank.probe.maps_due_ns(options.maps_interval_ns);
      if (d < due) {
        due = d;
        first = &rank.probe;
      }
    }
    if (!first) return;
    maps_credit_ns -= static_cast<double>(first->read_maps(proc.get(), now, options.maps_interval_ns, file));
  }
}

void Sampler::Impl::sample_host(uint64_t now) {
  host.sample(now);
  for (CgroupProbe& c : cgroups) c.sample(now);
  for (auto& [number, rank] : ranks) rank.probe.sample(proc.get(), now, file);
  read_maps(now);
  ++samples;
  if (first_ns == 0) first_ns = now;
  last_ns = now;
  host_due_ns = now + options.host_interval_ns;
  plan_memory(now);
}

void Sampler::Impl::plan_memory(uint64_t now) {
  const bool early = options.early_memory_interval_ns > 0 && now - first_ns < kEarlyNs && ranks.size() <= kFewRanks;
  memory_due_ns = early ? now + options.early_memory_interval_ns : UINT64_MAX;
}

void Sampler::Impl::sample_memory(uint64_t now) {
  for (auto& [number, rank] : ranks) rank.probe.sample_memory(proc.get(), now, file);
  plan_memory(now);
}

void Sampler::sample(uint64_t now_ns) {
  Impl& m = *impl_;
  if (now_ns >= m.tree_due_ns) m.search_tree(now_ns);
  if (now_ns >= m.host_due_ns)
    m.sample_host(now_ns);
  else if (now_ns >= m.memory_due_ns)
    m.sample_memory(now_ns);
  if (!m.options.devices) return;
  m.search_cuda(now_ns);
  m.devices.sample(now_ns);
}

uint64_t Sampler::next_due_ns() const {
  const Impl& m = *impl_;
  uint64_t due = std::min({m.host_due_ns, m.memory_due_ns, m.tree_due_ns});
  if (m.options.devices) due = std::min(due, m.devices.next_due_ns());
  return due;
}

HostFacts Sampler::facts() const {
  const Impl& m = *impl_;
  HostFacts out;
  out.node = m.options.node;
  out.hostname = m.hostname;
  out.first_ns = static_cast<int64_t>(m.first_ns);
  out.last_ns = static_cast<int64_t>(m.last_ns);
  out.samples = m.samples;
  out.processes_not_followed = m.not_followed;
  m.host.fill(out);
  for (const CgroupProbe& c : m.cgroups) out.cgroups.push_back(c.facts());
  for (const auto& [number, rank] : m.ranks) {
    RankProcess& p = out.ranks.emplace_back();
    rank.probe.fill(p);
    p.cgroup = rank.cgroup;
    for (const std::string& u : rank.probe.unavailable()) {
      if (std::find(out.unavailable.begin(), out.unavailable.end(), u) == out.unavailable.end())
        out.unavailable.push_back(u);
    }
  }
  m.devices.fill(out);
  return out;
}

}  // namespace stepscope
