// Who keeps a job that stands still from going on, by its Flight Recorder dumps. A rank that waits is a victim; a
// culprit is named by positive evidence only:
//
//   gpu_never_finishes   others have finished a collective that needs every member's part; this rank has not
//   host_stuck           others wait in an operation that it has not issued, though all that it did issue is done: its
//   GIL
//                        is held, or its Python is stuck before the call
//   mismatched           it issued another operation, size or data type at the same place
//   crossed_order        ranks wait for each other in different operations
//   silent               others wait in an operation that every rank seen has issued; this one has no dump, or an empty
//   one
//
// Where every rank has issued the operation and none has finished it, no rank is named (`all_arrived`): the transport
// is stuck, or the dump caught it in flight. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "flight/job_dumps.h"

namespace stepscope::flight {

enum class Kind : uint8_t { kGpuNeverFinishes, kHostStuck, kMismatched, kCrossedOrder, kSilent };
std::string_view name(Kind kind);

enum class Outcome : uint8_t {
  kCulprits,      // some rank is named
  kAllArrived,    // nobody is late, nothing finishes
  kNothingStuck,  // nothing is unfinished
  kUndecided,     // too few dumps, or waits without a cause
};
std::string_view name(Outcome outcome);

struct Culprit {
  int rank = -1;
  Kind kind = Kind::kHostStuck;
  std::vector<std::string> reasons;  // sentences, strongest first, at most kMaxReasons
};
inline constexpr size_t kMaxReasons = 4;

// One group in which something is unfinished.
struct GroupRow {
  std::string name, description;
  std::vector<int> ranks;
  std::string operation;      // the earliest that somebody has not finished: "all_to_all 45265 [[2048, 5120]]"
  std::vector<int> waiting;   // issued it, not finished
  std::vector<int> missing;   // have not issued it
  std::vector<int> finished;  // have finished it
  std::vector<int> unknown;   // no dump, or an empty one
  std::string frame;          // where a waiting rank called it, when frames were kept
};

struct Verdict {
  Outcome outcome = Outcome::kNothingStuck;
  std::vector<Culprit> culprits;  // by rank
  std::vector<int> victims;       // wait for a culprit, directly or by way of others
  std::string reason;             // where no culprit is named
  std::vector<GroupRow> rows;
};

Verdict judge(const JobDumps& job);

}  // namespace stepscope::flight
