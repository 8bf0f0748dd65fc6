// Looks from outside for processes that have torch loaded without our hooks: libtorch is among their memory maps and
// the recorder's module is not. Says so with the reason, as far as the process itself tells one (its arguments, its
// environment), so that a run in which nothing was seen is not taken for one that did not train.
//
// Meant for runs in which no rank has shown up: a look lists the processes below the launch command and reads the maps
// of each, some 0.2 ms. A process in the middle of `import torch` has one and not yet the other: a later look takes it
// back. Processes of other users stay unseen. One thread; never blocks.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "align/host_facts.h"
#include "base/fd.h"
#include "sampler/process_tree.h"
#include "sampler/small_file.h"

namespace stepscope {

class TorchProbe {
 public:
  explicit TorchProbe(const std::string& proc = "/proc");

  // Looks at what descends from `root`, and at `root` itself, when a look is due; `observer` and its children are left
  // out.
  void look(int root, int observer, uint64_t now_ns);
  // The first process that was found so and has not been hooked since. Asked when the run is over.
  std::optional<UnhookedProcess> found() const;

 private:
  struct Seen {
    uint64_t since_ns = 0;
    UnhookedProcess process;
  };

  void look_at(int pid, uint64_t start_ticks, uint64_t now_ns);
  std::string text_of(int pid, const char* file);

  Fd proc_;
  ProcessTree tree_;
  SmallFile file_;
  uint64_t began_ns_ = 0, due_ns_ = 0;
  std::map<std::pair<int, uint64_t>, Seen> seen_;  // by pid and start
};

}  // namespace stepscope
