// Who waits for whom in a job that stands still, from the places of its ranks in their groups. Pure; keeps a reference
// to the job, which must outlive it. O(ranks x groups x members).
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "diagnose/standing.h"

namespace stepscope {

class WaitChain {
 public:
  explicit WaitChain(const JobStanding& job);

  // What a rank is in.
  struct Edge {
    std::vector<int> ranks;  // that it waits for; empty = for nobody that is known
    bool blocked = false;    // it is in an operation, whoever is missing
    uint64_t group = 0, sequence = 0;
    bool init = false, message = false;
  };

  const Edge& edge(int rank) const { return waits_for_.at(rank); }
  const RankStanding* standing(int rank) const;  // null: not seen
  // Who holds a rank up, in the end. A rank that waits for nobody is its own root; of a ring there is none.
  std::set<int> roots_of(int rank) const;

  // "all_reduce 301 of the default group".
  std::string words_of(uint64_t group, uint64_t sequence, const IssuedOp* op) const;
  // "ranks 0, 2 wait in all_reduce 301 of the default group": as the first of them does. "" where it is in none.
  std::string waited_in(const std::vector<int>& victims) const;

 private:
  void follow(int rank, std::set<int>& seen, std::set<int>& roots) const;
  std::vector<int> missing(int rank, uint64_t group, uint64_t sequence) const;
  Edge find(const RankStanding& rank) const;

  const JobStanding& job_;
  std::map<int, const RankStanding*> by_rank_;
  std::map<int, Edge> waits_for_;
};

// Its own code keeps it where it is, as far as can be told: it may be ahead of others, but does not wait for them.
bool kept_by_own_code(const RankStanding& rank);

// Null where the rank has not issued it, or long ago.
const IssuedOp* issued_by(const RankStanding& rank, uint64_t group, uint64_t sequence);

}  // namespace stepscope
