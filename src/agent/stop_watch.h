// Sees ranks that a signal has stopped (SIGSTOP, a debugger, a frozen job): state T of /proc/<pid>/stat, looked at
// every kLookNs while the rank lives. The engine is told every moment at which it was seen, so that what the others
// waited is charged to it; the run's notes and events say it once per stop.
//
// One thread, the agent's. Cost: one small file per rank and look. A process that cannot be read is taken as running.
#pragma once

#include <cstdint>
#include <map>

#include "agent/pipeline.h"
#include "agent/run_store.h"
#include "sampler/small_file.h"

namespace stepscope {

class StopWatch {
 public:
  static constexpr uint64_t kLookNs = 200'000'000;

  void look(Pipeline& pipeline, RunStore& store, uint64_t now_ns);

 private:
  SmallFile file_;
  std::map<int, bool> stopped_;  // by pid
  uint64_t due_ns_ = 0;
};

}  // namespace stepscope
