// Who waits for whom, read from the unfinished operations of all ranks, with what each wait proves about the rank that
// is waited for. Private to this room. Pure; O(operations × group size).
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "flight/job_dumps.h"

namespace stepscope::flight {

struct Waits {
  std::map<int, std::set<int>> edges;               // rank → ranks it waits for
  std::map<int, std::vector<std::string>> behind;   // peers finished what this rank has not: its GPU
  std::map<int, std::vector<std::string>> missing;  // others wait in what this rank has not issued
  std::map<int, std::vector<std::string>>
      missing_transfer;                               // the same of sends and receives: weaker, a send may be done
  std::map<int, std::vector<std::string>> unseen;     // all that are seen wait for this rank, which is not
  std::map<int, std::vector<std::string>> unstarted;  // peers' GPUs have begun what this rank's has not
  std::set<int> busy;                                 // ranks with anything unfinished
};

// Operations in `excluded` (by group and sequence) prove nothing: their ranks did not issue the same.
using OperationSet = std::set<std::pair<const Group*, int64_t>>;
Waits find_waits(const JobDumps& job, const OperationSet& excluded);

// "all_to_all 45265 of EXPERT_MODEL_PARALLEL_GROUP (group 72)".
std::string operation_text(const Group& group, const Operation& op);

}  // namespace stepscope::flight
