#include "sampler/oom_counters.h"

#include <fcntl.h>

#include <algorithm>

#include "sampler/cgroup.h"

namespace stepscope {

void OomCounters::follow(int pid) {
  const auto text = file_.read(AT_FDCWD, (roots_.proc + "/" + std::to_string(pid) + "/cgroup").c_str());
  if (!text) return;
  const CgroupFolder group = memory_group_of(roots_, parse_cgroup_paths(*text));
  std::string& file = groups_[pid];
  file = group.folder.empty() ? "" : group.folder + (group.v2 ? "/memory.events" : "/memory.oom_control");
  if (!file.empty() && !counters_.contains(file)) note(counters_[file], file, 0);
  if (!host_.known) note(host_, roots_.proc + "/vmstat", 0);
}

// The first reading is where counting begins.
void OomCounters::note(Counter& counter, const std::string& file, uint64_t now_ns) {
  const auto text = file_.read(AT_FDCWD, file.c_str());
  const auto kills = text ? value_of(*text, "oom_kill") : std::nullopt;
  if (!kills) return;
  if (counter.known && *kills > counter.kills) counter.rose_ns = now_ns;
  counter.known = true;
  counter.kills = *kills;
}

void OomCounters::count(uint64_t now_ns) {
  for (auto& [file, counter] : counters_) note(counter, file, now_ns);
  if (host_.known) note(host_, roots_.proc + "/vmstat", now_ns);
}

void OomCounters::look(uint64_t now_ns) {
  if (groups_.empty() || now_ns < due_ns_) return;
  due_ns_ = now_ns + kLookNs;
  count(now_ns);
}

OomKill OomCounters::at_death(int pid, uint64_t now_ns) {
  const auto found = groups_.find(pid);
  if (found == groups_.end()) return OomKill::kUnknown;
  count(now_ns);
  const auto recent = [&](const Counter& c) { return c.rose_ns > 0 && now_ns - c.rose_ns <= kRecentNs; };
  const auto own = counters_.find(found->second);
  const bool known = host_.known || (own != counters_.end() && own->second.known);
  const bool in_group = own != counters_.end() && recent(own->second);
  const std::string file = found->second;
  groups_.erase(found);
  const bool used = std::any_of(groups_.begin(), groups_.end(), [&](const auto& g) { return g.second == file; });
  if (!used) counters_.erase(file);
  if (in_group) return OomKill::kInGroup;
  if (recent(host_)) return OomKill::kOnHost;
  return known ? OomKill::kNone : OomKill::kUnknown;
}

}  // namespace stepscope
