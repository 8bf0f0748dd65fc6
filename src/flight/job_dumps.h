// The dumps of one job laid side by side: per process group and rank, how far it has come and what it has not finished.
// Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "flight/rank_dump.h"

namespace stepscope::flight {

struct Member {
  int rank = -1;
  bool known = false;                        // its dump is here and has recorded something
  int64_t enqueued = -1;                     // last collective issued; -1: none that is known
  int64_t completed = -1;                    // last collective finished
  std::vector<const Operation*> unfinished;  // collectives, by sequence number
  std::vector<const Operation*> transfers;   // point-to-point, unfinished, in order of issue
};

struct Group {
  std::string name, description;
  std::vector<Member> members;  // in the group's own order: a place is a group rank
  const Member* find(int rank) const;
};

struct JobDumps {
  std::vector<RankDump> dumps;  // by rank
  std::vector<Group> groups;    // those with any operation or status; points into dumps
  std::vector<int> world;       // every rank that any group names, ascending
  std::vector<int> no_dump;     // of the world: no dump is here
  std::vector<int> silent;      // a dump is here, but nothing was recorded

  JobDumps() = default;
  JobDumps(JobDumps&&) = default;  // moving keeps the operations where they are
  JobDumps& operator=(JobDumps&&) = default;
  JobDumps(const JobDumps&) = delete;
};

// Failure: two dumps of one rank, or dumps of different jobs (groups that share a name and ranks but are not the same).
Result<JobDumps> join_dumps(std::vector<RankDump> dumps);

}  // namespace stepscope::flight
