// What slows the steps of a trace, by the shares that fixing each would give back. Causes are not exclusive: every one
// whose share is 0.5 or more is named; none reaching it, the cause is unknown and the figures say where to look.
// Pure, O(1).
#pragma once

#include <string_view>
#include <vector>

#include "replay/slowdown.h"

namespace stepscope::replay {

enum class Cause : uint8_t { kSlowWorkers, kLongLastStage, kUnevenMicrobatches, kSlowCommunication };
std::string_view name(Cause cause);  // "slow_workers"

enum class Straggling : uint8_t { kNone, kSlight, kClear };  // S below 1.03, below 1.1, from 1.1
std::string_view name(Straggling straggling);

struct Verdict {
  Straggling straggling = Straggling::kNone;
  struct Named {
    Cause cause;
    double share = 0;
  };
  std::vector<Named> causes;               // largest share first; empty when nothing straggles, or the cause is unknown
  std::vector<WorkerFigure> slow_workers;  // those that kSlowWorkers means, slowest first
  // One replica: a slow worker and a stage that is too long look the same.
  bool worker_or_stage = false;
};

Verdict judge_cause(const Slowdown& slowdown);

}  // namespace stepscope::replay
