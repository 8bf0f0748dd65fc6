// Whether the kernel's out-of-memory killer was at work when a process died: its counters in the process's control
// group (memory.events, memory.oom_control) and on the host (/proc/vmstat). SIGKILL itself does not say who sent it.
//
// A process with much memory takes a while to be gone after the kernel has counted it: a kill within kRecentNs before
// the death is taken for its own. One thread. Cost of a look: a small file per control group, and one. What cannot be
// read says nothing.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "align/host_facts.h"
#include "sampler/proc_root.h"
#include "sampler/small_file.h"

namespace stepscope {

class OomCounters {
 public:
  static constexpr uint64_t kLookNs = 1'000'000'000, kRecentNs = 10'000'000'000;

  explicit OomCounters(ProcRoot roots = {}) : roots_(std::move(roots)) {}

  void follow(int pid);                        // while it lives
  void look(uint64_t now_ns);                  // counts, once a kLookNs
  OomKill at_death(int pid, uint64_t now_ns);  // and follows it no longer

 private:
  struct Counter {
    bool known = false;
    uint64_t kills = 0, rose_ns = 0;
  };
  void count(uint64_t now_ns);
  void note(Counter& counter, const std::string& file, uint64_t now_ns);

  ProcRoot roots_;
  SmallFile file_;
  std::map<int, std::string> groups_;        // of the processes: the file that counts; "" = none
  std::map<std::string, Counter> counters_;  // by file
  Counter host_;
  uint64_t due_ns_ = 0;
};

}  // namespace stepscope
