// Who descends from whom: finds the processes below given roots by their parents' pids.
//
// Cost: one listing of /proc per refresh and one file per process that was not there the last time; everything is read
// again every kFullEvery refreshes, in case a pid was reused unseen. At most kMaxProcesses are known.
#pragma once

#include <cstdint>
#include <dirent.h>
#include <memory>
#include <string>
#include <vector>

#include "sampler/small_file.h"

namespace stepscope {

class ProcessTree {
 public:
  static constexpr size_t kMaxProcesses = 65536;
  static constexpr uint64_t kFullEvery = 30;

  struct Known {
    int pid = 0, ppid = 0;
    uint64_t start_ticks = 0;
  };
  struct Descendant {
    int pid = 0, root = 0;  // the nearest root above it
    uint64_t start_ticks = 0;
  };

  explicit ProcessTree(const std::string& proc);

  // `roots` sorted. Leaves `excluded` and what descends from it out (the observer itself may be a rank's child).
  // The result is sorted by pid and valid until the next call.
  const std::vector<Descendant>& refresh(const std::vector<int>& roots, int excluded, SmallFile& file);

 private:
  struct CloseDir {
    void operator()(DIR* d) const { ::closedir(d); }
  };

  void list(SmallFile& file);
  const Known* find(int pid) const;

  std::unique_ptr<DIR, CloseDir> dir_;
  uint64_t refreshes_ = 0;
  std::vector<int> present_;
  std::vector<Known> known_, next_;
  std::vector<Descendant> found_;
};

}  // namespace stepscope
