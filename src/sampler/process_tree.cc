#include "sampler/process_tree.h"

#include <algorithm>
#include <cstdio>

#include "sampler/process.h"

namespace stepscope {
namespace {

constexpr int kMaxDepth = 64;

int pid_of(const char* name) {
  int pid = 0;
  for (const char* c = name; *c; ++c) {
    if (*c < '0' || *c > '9' || pid > 100'000'000) return 0;
    pid = pid * 10 + (*c - '0');
  }
  return pid;
}

}  // namespace

ProcessTree::ProcessTree(const std::string& proc) : dir_(::opendir(proc.c_str())) {}

const ProcessTree::Known* ProcessTree::find(int pid) const {
  const auto it = std::lower_bound(known_.begin(), known_.end(), pid, [](const Known& k, int p) { return k.pid < p; });
  return it != known_.end() && it->pid == pid ? &*it : nullptr;
}

void ProcessTree::list(SmallFile& file) {
  present_.clear();
  ::rewinddir(dir_.get());
  while (const dirent* entry = ::readdir(dir_.get())) {
    const int pid = pid_of(entry->d_name);
    if (pid > 0 && present_.size() < kMaxProcesses) present_.push_back(pid);
  }
  std::sort(present_.begin(), present_.end());
  const bool full = refreshes_++ % kFullEvery == 0;
  next_.clear();
  for (const int pid : present_) {
    if (const Known* k = full ? nullptr : find(pid)) {
      next_.push_back(*k);
      continue;
    }
    char path[40];
    std::snprintf(path, sizeof path, "%d/stat", pid);
    const auto text = file.read(::dirfd(dir_.get()), path);
    const auto stat = text ? parse_process_stat(*text) : std::nullopt;
    if (stat) next_.push_back({pid, stat->ppid, stat->start_ticks});
  }
  known_.swap(next_);
}

const std::vector<ProcessTree::Descendant>& ProcessTree::refresh(const std::vector<int>& roots, int excluded,
                                                                 SmallFile& file) {
  found_.clear();
  if (!dir_ || roots.empty()) return found_;
  list(file);
  for (const Known& k : known_) {
    if (k.pid == excluded || std::binary_search(roots.begin(), roots.end(), k.pid)) continue;
    int ancestor = k.ppid;
    for (int depth = 0; depth < kMaxDepth && ancestor > 1 && ancestor != excluded; ++depth) {
      if (std::binary_search(roots.begin(), roots.end(), ancestor)) {
        found_.push_back({k.pid, ancestor, k.start_ticks});
        break;
      }
      const Known* up = find(ancestor);
      if (!up) break;
      ancestor = up->ppid;
    }
  }
  return found_;
}

}  // namespace stepscope
