// What is known of a job that stands still, as plain values: by the records, the kernel and the ranks' own stacks.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "align/category.h"
#include "align/whereabouts.h"

namespace stepscope {

struct CodeLine {
  int line = 0;  // 0 = not known
  std::string function, file;
  bool operator==(const CodeLine&) const = default;
};

// The Python stack of a rank's training thread.
struct ThreadStack {
  std::vector<CodeLine> frames;  // innermost first
  bool holds_gil = false;        // in every sample since it was asked
  bool in_interpreter = false;   // in some sample the thread ran Python code, not native code
  std::string module;            // that its newest instruction belongs to: "libtorch_cpu.so"; "" = not known
};

// A loader worker that stands still at a batch that its rank waits for: all its threads wait for locks or each other,
// and none of them has computed since it was looked at first.
struct StuckWorker {
  int pid = 0;
  uint64_t worker = 0;
  std::string wait_channel;
  double stands_s = 0;  // at least
};

struct RankStanding {
  int rank = -1;
  bool ended = false, clean = false;  // its process is gone; in order
  bool leaving = false;               // in teardown, or beyond
  int exit_signal = 0, exit_code = -1;
  std::string exception;
  uint64_t steps = 0;     // completed
  double silent_s = 0;    // since its last progress
  double patience_s = 0;  // a shorter silence is none
  double timeout_s = 0;   // of its process group; 0 = not known
  Category phase = Category::kUnattributed;
  bool in_init = false, joined = true;  // init_process_group
  std::map<uint64_t, PlaceInGroup> groups;
  OpTurns turns;                      // of all its groups
  std::optional<DevicePlace> device;  // how far its device has come; nullopt = not known
  bool data_ended = false;            // since it trained last
  bool data_seen = true;              // its data comes from a loader, which tells when it ends
  std::optional<AwaitedOp> awaits;
  std::vector<StuckWorker> stuck_workers;
  char state = 0;  // of the training thread; 0 = not known
  std::string wait_channel;
  std::optional<double> cpu_share;  // of one core, since it was looked at
  std::optional<ThreadStack> stack;
  std::string no_stack;  // why there is none
};

struct JobStanding {
  struct Group {
    std::string name;
    std::vector<int> ranks;
  };
  int world = 0;
  double run_s = 0;                 // since the run began
  std::vector<RankStanding> ranks;  // that were seen, ascending
  std::map<uint64_t, Group> groups;
};

}  // namespace stepscope
