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
#include <set>
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
  bool told_end = false;  // that its process has ended
  int world_size = 0;     // as it said when it was admitted; 0 = not known
};

// Who holds which rank.
class Participants {
 public:
  using Map = std::map<int, Participant>;
  Map::const_iterator begin() const { return by_rank_.begin(); }
  Map::const_iterator end() const { return by_rank_.end(); }
  Map::iterator begin() { return by_rank_.begin(); }  // a participant's tail stays
  Map::iterator end() { return by_rank_.end(); }
  Map::const_iterator find(int rank) const { return by_rank_.find(rank); }
  const Participant& at(int rank) const { return by_rank_.at(rank); }
  Participant& at(int rank) { return by_rank_.at(rank); }
  bool contains(int rank) const { return by_rank_.contains(rank); }
  bool holds(TailId tail) const { return tails_.contains(tail); }
  size_t size() const { return by_rank_.size(); }
  bool empty() const { return by_rank_.empty(); }

  void put(int rank, const Participant& participant) {
    erase(rank);
    by_rank_[rank] = participant;
    tails_.insert(participant.tail);
  }
  void erase(int rank) {
    const auto found = by_rank_.find(rank);
    if (found == by_rank_.end()) return;
    tails_.erase(found->second.tail);
    by_rank_.erase(found);
  }
  Map take() {
    tails_.clear();
    return std::exchange(by_rank_, {});
  }

 private:
  Map by_rank_;
  std::set<TailId> tails_;
};

struct Attempt {
  int number = 0;           // in the run, from 0
  int restarts = 0;         // the launcher's own count, 0 where it has none
  int world_size = 0;       // 0 = not known
  uint64_t first_step = 0;  // steps of the run that were closed before it
  Participants ranks;
  std::vector<UncleanDeath> deaths;
};

// What is known of a process that says which rank it is. Times are CLOCK_MONOTONIC, 0 = not seen.
struct Claim {
  int rank = -1;
  int world_size = 0, restarts = 0;
  int64_t opened_ns = 0;      // its black box: a pooled process may be far older than its part in this job
  int64_t active_ns = 0;      // its last record
  bool left = false;          // gone, or through its exit handlers
  int64_t joined_ns = 0;      // through init_process_group and has trained
  bool only_said_so = false;  // init() alone: a main process that leaves the training to others
};

// What counts of the claims of those who are admitted, whatever their number.
struct Members {
  size_t count = 0;
  bool all_left = true;
  int64_t last_active_ns = 0;          // of any
  int64_t last_active_present_ns = 0;  // of those who have not left
  int64_t first_opened_ns = INT64_MAX;
  int64_t first_joined_ns = INT64_MAX;  // of those who have trained: when the earliest was through init_process_group

  void add(const Claim& claim);
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
// admitted, `holder` the one of them that has its rank; null = nobody.
Place place_of(const Claim& claim, const Attempt& attempt, const Members& members, const Claim* holder);

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
