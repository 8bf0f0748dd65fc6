#include "sampler/cgroup.h"

#include <fcntl.h>

#include <algorithm>
#include <utility>

#include "base/file.h"

namespace stepscope {
namespace {

constexpr int kMaxDepth = 32;
constexpr uint64_t kLimitsEvery = 30;                    // samples: limits can be changed while a job runs
constexpr double kNoLimitBytes = 4611686018427387904.0;  // 2^62: version 1 writes "none" as 2^63 less one page

bool has_controller(std::string_view list, std::string_view name) {
  while (!list.empty()) {
    const size_t end = list.find(',');
    if (list.substr(0, end) == name) return true;
    list.remove_prefix(end == std::string_view::npos ? list.size() : end + 1);
  }
  return false;
}

// Folder of `path` under `mount`, dropping leading parts that this namespace does not show.
std::string visible(const std::string& mount, std::string path) {
  if (!is_dir(mount)) return "";
  if (path.find("..") != std::string::npos) path = "/";  // of a group outside our namespace
  while (path.size() > 1) {
    if (is_dir(mount + path)) return mount + path;
    const size_t next = path.find('/', 1);
    if (next == std::string::npos) break;
    path.erase(0, next);
  }
  return mount;
}

// The folder and its ancestors down to the mount.
std::vector<std::string> ancestors(std::string folder, const std::string& mount) {
  std::vector<std::string> out;
  for (int i = 0; i < kMaxDepth && folder.size() >= mount.size(); ++i) {
    out.push_back(folder);
    if (folder == mount) break;
    folder.erase(folder.rfind('/'));
  }
  return out;
}

std::string first_dir(std::initializer_list<std::string> candidates) {
  for (const std::string& c : candidates) {
    if (is_dir(c)) return c;
  }
  return "";
}

}  // namespace

CgroupPaths parse_cgroup_paths(std::string_view text) {
  CgroupPaths out;
  while (!text.empty()) {
    std::string_view line = take_line(text);
    const size_t a = line.find(':');
    if (a == std::string_view::npos) continue;
    const size_t b = line.find(':', a + 1);
    if (b == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(a + 1, b - a - 1), path = line.substr(b + 1);
    if (path.empty() || path.front() != '/' || path.size() > 4096) continue;
    if (controllers.empty()) out.unified = path;
    if (has_controller(controllers, "memory")) out.memory = path;
    if (has_controller(controllers, "cpu")) out.cpu = path;
    if (has_controller(controllers, "cpuset")) out.cpuset = path;
  }
  return out;
}

std::optional<double> parse_memory_limit(std::string_view text) {
  const auto v = take_u64(text);
  if (!v || static_cast<double>(*v) >= kNoLimitBytes) return std::nullopt;
  return static_cast<double>(*v);
}

CgroupProbe::CgroupProbe(const ProcRoot& roots, const CgroupPaths& paths, size_t series_capacity)
    : roots_(roots),
      paths_(paths),
      used_(series_capacity),
      throttled_share_(series_capacity),
      throttled_ms_per_s_(series_capacity) {
  find_limits();
}

void CgroupProbe::find_limits() {
  const std::string cpu_before = cpu_.folder;
  find_memory();
  find_cpu();
  if (cpu_.folder != cpu_before) periods_ = throttled_periods_ = throttled_us_ = std::nullopt;  // of another group
}

std::optional<std::string_view> CgroupProbe::read(const std::string& folder, const char* name) {
  return file_.read(AT_FDCWD, (folder + "/" + name).c_str());
}

std::optional<double> CgroupProbe::memory_limit(const Level& level) {
  const auto text = read(level.folder, level.v2 ? "memory.max" : "memory.limit_in_bytes");
  return text ? parse_memory_limit(*text) : std::nullopt;
}

std::optional<double> CgroupProbe::cpu_limit(const Level& level) {
  if (level.v2) {
    auto text = read(level.folder, "cpu.max");
    if (!text) return std::nullopt;
    const auto quota = take_u64(*text);
    const auto period = quota ? take_u64(*text) : std::nullopt;
    if (!period || *period == 0) return std::nullopt;
    return static_cast<double>(*quota) / static_cast<double>(*period);
  }
  auto text = read(level.folder, "cpu.cfs_quota_us");
  const auto quota = text ? take_u64(*text) : std::nullopt;  // -1 = none
  text = read(level.folder, "cpu.cfs_period_us");
  const auto period = text ? take_u64(*text) : std::nullopt;
  if (!quota || !period || *period == 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

CgroupFolder memory_group_of(const ProcRoot& roots, const CgroupPaths& paths) {
  const std::string base = roots.sys + "/fs/cgroup";
  const bool v2 = paths.memory.empty() && is_file(base + "/cgroup.controllers");
  const std::string& path = v2 ? paths.unified : paths.memory;
  return {path.empty() ? "" : visible(v2 ? base : base + "/memory", path), v2};
}

void CgroupProbe::find_memory() {
  facts_.memory_limit_bytes.reset();
  memory_ = {};
  const auto [own, v2] = memory_group_of(roots_, paths_);
  const std::string mount = roots_.sys + "/fs/cgroup" + (v2 ? "" : "/memory");
  facts_.version = v2 ? 2 : 1;
  facts_.path = v2 ? paths_.unified : paths_.memory;
  if (own.empty()) return;
  memory_ = {own, v2};
  for (const std::string& folder : ancestors(own, mount)) {
    const Level level{folder, v2};
    const auto limit = memory_limit(level);
    if (!limit || (facts_.memory_limit_bytes && *facts_.memory_limit_bytes <= *limit)) continue;
    facts_.memory_limit_bytes = limit;
    memory_ = level;
  }
  // The use of a hierarchy's root is that of the whole machine, unless a limit shows that it is a container's.
  if (memory_.folder == mount && !facts_.memory_limit_bytes) memory_ = {};
}

void CgroupProbe::find_cpu() {
  facts_.cpu_limit_cores.reset();
  facts_.cpuset_cores.reset();
  cpu_ = {};
  const std::string base = roots_.sys + "/fs/cgroup";
  const bool v2 = paths_.cpu.empty() && is_file(base + "/cgroup.controllers");
  const std::string mount = v2 ? base : first_dir({base + "/cpu", base + "/cpu,cpuacct", base + "/cpuacct,cpu"});
  const std::string& path = v2 ? paths_.unified : paths_.cpu;
  const std::string own = path.empty() || mount.empty() ? "" : visible(mount, path);
  if (!own.empty()) {
    cpu_ = {own, v2};
    for (const std::string& folder : ancestors(own, mount)) {
      const Level level{folder, v2};
      const auto limit = cpu_limit(level);
      if (!limit || (facts_.cpu_limit_cores && *facts_.cpu_limit_cores <= *limit)) continue;
      facts_.cpu_limit_cores = limit;
      cpu_ = level;
    }
  }
  const bool set_v2 = paths_.cpuset.empty() && is_file(base + "/cgroup.controllers");
  const std::string& set_path = set_v2 ? paths_.unified : paths_.cpuset;
  const std::string set = set_path.empty() ? "" : visible(set_v2 ? base : base + "/cpuset", set_path);
  if (set.empty()) return;
  for (const char* name : {"cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"}) {
    const auto text = read(set, name);
    const auto cores = text ? count_list(*text) : std::nullopt;
    if (!cores) continue;
    facts_.cpuset_cores = *cores;
    break;
  }
}

void CgroupProbe::sample(uint64_t now_ns) {
  const auto now = static_cast<int64_t>(now_ns);
  const double seconds = last_ns_ && now_ns > last_ns_ ? static_cast<double>(now_ns - last_ns_) * 1e-9 : 0;
  last_ns_ = now_ns;
  if (samples_++ % kLimitsEvery == 0 && samples_ > 1) find_limits();
  if (!memory_.folder.empty()) {
    auto text = read(memory_.folder, memory_.v2 ? "memory.current" : "memory.usage_in_bytes");
    const auto usage = text ? take_u64(*text) : std::nullopt;
    if (usage) {
      text = read(memory_.folder, "memory.stat");
      const uint64_t cache =
          text ? value_of(*text, memory_.v2 ? "inactive_file" : "total_inactive_file").value_or(0) : 0;
      used_.add(now, static_cast<double>(*usage > cache ? *usage - cache : 0));
    }
    text = read(memory_.folder, memory_.v2 ? "memory.events" : "memory.oom_control");
    const auto kills = text ? value_of(*text, "oom_kill") : std::nullopt;
    if (kills) {
      if (!facts_.oom_kills.first) facts_.oom_kills.first = kills;
      facts_.oom_kills.last = kills;
    }
  }
  if (cpu_.folder.empty()) return;
  const auto text = read(cpu_.folder, "cpu.stat");
  if (!text) return;
  const auto periods = value_of(*text, "nr_periods"), throttled = value_of(*text, "nr_throttled");
  auto throttled_us = value_of(*text, "throttled_usec");
  if (const auto ns = value_of(*text, "throttled_time"); !throttled_us && ns) throttled_us = *ns / 1000;
  if (periods && periods_ && throttled && throttled_periods_ && *periods >= *periods_ &&
      *throttled >= *throttled_periods_) {
    // No period at all: the group has no quota or slept; nothing was held back.
    const auto ran = static_cast<double>(*periods - *periods_);
    const auto held = static_cast<double>(*throttled - *throttled_periods_);
    throttled_share_.add(now, ran > 0 ? std::min(1.0, held / ran) : 0);
  }
  if (throttled_us && throttled_us_ && *throttled_us >= *throttled_us_ && seconds > 0) {
    throttled_ms_per_s_.add(now, static_cast<double>(*throttled_us - *throttled_us_) * 1e-3 / seconds);
  }
  periods_ = periods;
  throttled_periods_ = throttled;
  throttled_us_ = throttled_us;
}

CgroupFacts CgroupProbe::facts() const {
  CgroupFacts out = facts_;
  out.memory_used_bytes = used_.facts();
  out.throttled_period_share = throttled_share_.facts();
  out.throttled_ms_per_s = throttled_ms_per_s_.facts();
  return out;
}

}  // namespace stepscope
