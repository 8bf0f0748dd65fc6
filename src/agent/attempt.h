// An attempt: one start of the run's ranks, and who sits where in it. Who belongs to which is told by evidence, not by
// the launcher's restart count alone: elastic membership changes number the ranks anew at the same count, a second
// launch under the same command counts from 0 again, and a supervisor replaces one rank while the others train on.
//
// Plain structs and pure functions: no clock, no ring.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace stepscope {

using TailId = size_t;

// A death that is not a clean exit.
struct UncleanDeath {
  int rank = -1, signal = 0;
  std::string exception;
  int64_t time_ns = 0;
  bool in_teardown = false;  // after its last step
};

// A process that holds a rank. Its step `from` is step `at` of the attempt; where it came later than the others, `at`
// is empty until their steps tell.
struct Participant {
  TailId tail = 0;
  uint64_t from = 0;
  std::optional<uint64_t> at = 0;
  uint64_t not_before = 0;  // steps that another process made as this rank
  bool late = false;
  int world_size = 0;  // as it said when it was admitted; 0 = not known
};

struct Attempt {
  int number = 0;           // in the run, from 0
  int restarts = 0;         // the launcher's own count, 0 where it has none
  int world_size = 0;       // 0 = not known
  uint64_t first_step = 0;  // steps of the run that were closed before it
  std::map<int, Participant> ranks;
  std::vector<UncleanDeath> deaths;
};

// What is known of a process that says which rank it is. Times are CLOCK_MONOTONIC, 0 = not seen.
struct Claim {
  int rank = -1;
  int world_size = 0, restarts = 0;
  int64_t opened_ns = 0;      // its black box: a pooled process may be far older than its part in this job
  int64_t active_ns = 0;      // its last record
  bool left = false;          // gone, or through its exit handlers
  bool only_said_so = false;  // init() alone: a main process that leaves the training to others
};

enum class Place {
  kBegins,     // its start is another start of the ranks
  kJoins,      // its rank is free
  kReplaces,   // the process that held its rank is gone while others train on
  kTakesOver,  // the holder only said that it is this rank
  kWaits,      // somebody else trains as this rank, or in another start of the ranks
  kHistory,    // of a start before this one
};

// Where a process belongs that is not admitted yet. `restarts` and `world_size` are the attempt's, `members` those
// admitted.
Place place_of(const Claim& claim, const Attempt& attempt, const std::vector<Claim>& members);

// Which step of the attempt ended when: tells a process that came later where it joined in.
class StepClock {
 public:
  void note(uint64_t step, int64_t end_ns);
  // The step whose end is nearest; nothing while no step is known to have ended after this moment.
  std::optional<uint64_t> step_at(int64_t end_ns) const;
  uint64_t next() const { return ends_.empty() ? 0 : ends_.back().first + 1; }

 private:
  static constexpr size_t kMaxEnds = 4096;
  std::deque<std::pair<uint64_t, int64_t>> ends_;  // ascending in both
};

}  // namespace stepscope
