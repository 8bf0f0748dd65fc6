// One rank's Flight Recorder dump (torch 2.4 and newer), from pickle or JSON: what it had issued to its process groups
// and how far that had come. Bytes come from anywhere.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace stepscope::flight {

enum class OpState : uint8_t { kScheduled, kStarted, kCompleted };

struct Operation {
  std::string group;        // name of its process group
  std::string description;  // "TENSOR_MODEL_PARALLEL_GROUP"; "" where the dump says none
  std::string name;         // without the backend: "all_reduce", "send 0->1"
  int64_t record = 0;       // order of issue on its rank
  int64_t sequence = 0;     // in its group: of collectives, or of point-to-point operations
  bool p2p = false;
  OpState state = OpState::kScheduled;
  bool timed = false;    // its start on the GPU was looked for and seen
  std::string sizes;     // of the inputs, "[[16]]"
  int64_t elements = 0;  // of the inputs together
  std::string dtypes;    // of the inputs, "BFloat16"
  std::optional<int64_t> created_ns;
  std::string frame;  // "train.py:61 step", innermost; "" where frames were not kept
};

struct GroupStatus {  // sequence numbers; -1: none yet
  int64_t enqueued = -1, started = -1, completed = -1;
};

struct GroupConfig {
  std::string description;
  std::vector<int> ranks;  // ascending as in the dump: a group rank is a place in it
};

struct RankDump {
  std::string file;
  int rank = -1;
  std::string version;
  std::map<std::string, GroupConfig> groups;  // by name; of this rank
  std::map<std::string, GroupStatus> status;  // by group name
  std::vector<Operation> operations;          // in order of issue
  bool recorded = false;                      // any operation or status at all
};

inline constexpr size_t kMaxDumpBytes = 256u << 20;

// The rank is the number at the end of the file's name (`file` may hold folders), else the only member that all of its
// groups have in common. Failure: one line that begins with `file`.
Result<RankDump> read_dump(std::string_view bytes, const std::string& file);

}  // namespace stepscope::flight
