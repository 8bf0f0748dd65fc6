// What the agent of one node tells the aggregator: one frame about every second. Who its rank processes are, their
// completed steps, their lives, their groups, and what was lost on the way.
//
//   "SSNF", version u16, form u8, length u32 of the body, sent i64, least offset i64, body (zstd, else as it is),
//   XXH32 of all before
//
// Each frame can be read by itself. Steps are coded against the step before in the same frame; times in units of about
// a 16384th of the process's first step in the frame, everything else exactly. What stays out: what only the builder of
// steps needs, and of a GPU job the order of the host's own ledger.
//
// Pure; one codec per thread. Cost: about 2 us a step each way. Decoding trusts no byte: sizes and counts are bounded,
// what does not fit is an Error, and no frame takes more memory than kMaxFrameMemory.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/node_sight.h"
#include "align/name_book.h"
#include "align/rank_step.h"
#include "analyze/host_load.h"
#include "base/result.h"
#include "blackbox/ring_reader.h"
#include "diagnose/code_lines.h"

namespace stepscope {

inline constexpr uint16_t kNodeFrameVersion = 1;
inline constexpr size_t kMaxFrameBytes = size_t{4} << 20;  // on the wire
inline constexpr size_t kMaxFrameBody = size_t{16} << 20;  // unpacked
inline constexpr size_t kMaxFrameMemory = size_t{64} << 20;
inline constexpr size_t kMaxFrameProcesses = 1024, kMaxFrameSteps = 65536;

// How long a process has been and how it is: what changes with every step, told in each frame.
struct ProcessNow {
  uint64_t steps = 0, records = 0, lost = 0, torn = 0, damaged = 0;
  uint64_t optimizer_ends = 0;
  int64_t active_ns = 0, last_step_ns = 0;
  int64_t stopped_ns = 0;  // when it was last seen stopped by a signal; 0 = never
  Category open_phase = Category::kUnattributed;
  bool numbers_certain = true;
  uint64_t unsent = 0;  // steps that were dropped on the node before they could be sent
  bool operator==(const ProcessNow&) const = default;
};

// What one frame tells of one process. `number` names it among those of the node's agent, from 0.
struct ProcessNews {
  uint64_t number = 0;
  ProcessNow now;
  std::optional<blackbox::Identity> identity;  // when new or changed
  std::optional<RankLife> life;                // when changed; what stands in `now` is newer
  std::string ended_thread;                    // with `life`
  std::map<uint64_t, ProcessGroup> groups;     // new or changed
  std::map<uint64_t, size_t> communicators;
  NameBook::Names facts;         // NameKind::kFact alone
  std::vector<CodeSample> code;  // answers to "where are you?", new ones
  std::vector<RankStep> steps;   // in order
};

struct NodeFrame {
  std::string run;        // which job: frames of another are refused
  uint64_t node = 0;      // random, one per start of an agent
  uint64_t sequence = 0;  // from 1
  uint64_t oldest = 1;    // of the frames that the node still has: what came before will not come again
  std::string hostname;
  int64_t sent_ns = 0;  // CLOCK_MONOTONIC of the node
  // How far the aggregator's clock is ahead, at least: from answers that came back. Nothing before the first.
  std::optional<int64_t> least_offset_ns;
  uint64_t dropped_frames = 0;
  bool last = false;  // the run is over on this node
  std::optional<HostLoad> load;
  std::vector<std::string> notes;       // of the node's observer, all of them, when changed
  std::optional<HostSight> host;        // when changed
  std::optional<JobStanding> standing;  // of the ranks there, while the job seems to stand still
  std::vector<ProcessNews> processes;
};

// The answer to a frame that was taken in.
struct NodeAnswer {
  uint64_t aggregator = 0;              // random, one per start of an aggregator
  uint64_t taken = 0;                   // the highest sequence that was taken in
  bool tell_all = false;                // identities, lives, groups are missing there: they should be told again
  int64_t now_ns = 0;                   // its CLOCK_MONOTONIC
  std::map<uint64_t, uint64_t> stamps;  // process → until how many optimizer calls it should stamp completions
  std::vector<uint64_t> lines;          // processes whose lines of code would explain something
};

std::string encode(const NodeFrame& frame);
Result<NodeFrame> decode_frame(std::string_view bytes);
// Sets in a frame that waited when it is sent and what is known of the clocks by then.
void set_sent(std::string& frame, int64_t sent_ns, std::optional<int64_t> least_offset_ns);
// The version that a frame says it has; nothing where it is no frame.
std::optional<uint16_t> frame_version(std::string_view bytes);

// As they lie in a frame: what is equal there need not be told again.
std::string words_of(const blackbox::Identity& identity);
std::string words_of(const RankLife& life);

std::string encode(const NodeAnswer& answer);
Result<NodeAnswer> decode_answer(std::string_view bytes);

// Steps with many stalls are told with those of one group and phase added up, so that a step takes little room. It is
// done for the ranks of all nodes alike, since only equal sync points meet (`sequence` is then that of the last of
// them). Own time between them moves before what is added up; sums stay as they are.
inline constexpr size_t kMostSingleStalls = 16, kMostBuckets = 16;
void sum_up_stalls(RankStep& step);

}  // namespace stepscope
