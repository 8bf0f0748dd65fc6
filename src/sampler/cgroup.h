// Control groups of a process, version 1 (one hierarchy per controller), 2 (unified) and mixed: the limits that bind it
// (the tightest among its group and the ancestors that are visible here) and what is used of them.
//
// Inside a container the path that the kernel tells may not exist under /sys/fs/cgroup; leading parts are then dropped
// until one does, at last the root of the mount, which is the container's own group.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "align/host_facts.h"
#include "sampler/proc_root.h"
#include "sampler/series.h"
#include "sampler/small_file.h"

namespace stepscope {

// Paths per controller out of /proc/<pid>/cgroup; empty = not in one.
struct CgroupPaths {
  std::string unified, memory, cpu, cpuset;
  bool operator==(const CgroupPaths&) const = default;
};
CgroupPaths parse_cgroup_paths(std::string_view text);

// The folder of the memory controller's group that these paths name, and which version it is; "" = none is visible.
struct CgroupFolder {
  std::string folder;
  bool v2 = false;
};
CgroupFolder memory_group_of(const ProcRoot& roots, const CgroupPaths& paths);

// A limit file's number; nullopt for "max", -1 and version 1's "no limit" (close to 2^63).
std::optional<double> parse_memory_limit(std::string_view text);

// One group that at least one rank is in. Files: about six per sample.
class CgroupProbe {
 public:
  CgroupProbe(const ProcRoot& roots, const CgroupPaths& paths, size_t series_capacity);

  const CgroupPaths& paths() const { return paths_; }
  void sample(uint64_t now_ns);
  CgroupFacts facts() const;

 private:
  struct Level {
    std::string folder;
    bool v2 = false;
  };  // absolute; "" = none

  void find_limits();
  void find_memory();
  void find_cpu();
  std::optional<std::string_view> read(const std::string& folder, const char* name);
  std::optional<double> memory_limit(const Level& level);
  std::optional<double> cpu_limit(const Level& level);

  ProcRoot roots_;
  CgroupPaths paths_;
  SmallFile file_;
  Level memory_, cpu_;  // where the tightest limit is
  CgroupFacts facts_;
  Series used_, throttled_share_, throttled_ms_per_s_;
  uint64_t last_ns_ = 0, samples_ = 0;
  std::optional<uint64_t> periods_, throttled_periods_, throttled_us_;
};

}  // namespace stepscope
