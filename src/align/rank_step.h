// One step of one rank: what the step builder hands to the step table. A plain value. Its figures (time in the garbage
// collector, samples, the allocator's sizes, …) stand in step_fields.def.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "align/category.h"
#include "align/host_facts.h"
#include "align/step_fields.h"

namespace stepscope {

// Why a step is not like the others. Baselines leave tagged steps out.
enum StepTag : uint32_t {
  kTagCompile = 1 << 1,
  kTagCheckpoint = 1 << 2,
  kTagValidation = 1 << 3,
  kTagEpochStart = 1 << 4,
  kTagSkipped = 1 << 5,      // GradScaler skipped the optimizer
  kTagInferred = 1 << 6,     // no optimizer event: the boundary is a backward end
  kTagProvisional = 1 << 7,  // the open last step, closed because the run ended
  kTagLossy = 1 << 8,        // records of this step were overwritten before they were read
  kTagCaptured = 1 << 9,     // ran as a CUDA graph
};

// What is remarkable about the numbers of a step (RankStep::numerics).
enum NumericsBit : uint32_t {
  kLossNotFinite = 1 << 0,      // of one of its backwards
  kGradNormNotFinite = 1 << 1,  // as the program computed it
  kLossScaled = 1 << 2,         // a GradScaler was at work: what backward was called on is not the loss
  kSchedulerFirst = 1 << 3,     // the learning rate schedule advanced before any optimizer had stepped
  kLossSeen = 1 << 4,           // of one of its backwards, finite or not
};

// Which operation a stall is blocked on, beside its group and sequence number.
struct StallSyncPoint {
  int32_t peer = -1;     // a message: the other rank; -1 = a collective
  bool sends = false;    // a message: to the peer
  bool counted = false;  // not told: `sequence` counts the rank's waits, the group is a guess
  bool operator==(const StallSyncPoint&) const = default;
};

// One interval in which a rank's compute is blocked at a wait point. Clock-free: only durations are compared.
struct Stall {
  uint64_t group = 0;     // group id; 0 = DDP's backward tail, whose group is that of its buckets
  uint64_t sequence = 0;  // of the collective it blocks on; for a backward tail: index of the backward in the step
  int64_t begin_ns = 0;
  int64_t duration_ns = 0;
  Category phase = Category::kBackward;  // the phase it interrupts
  StallSyncPoint sync_point{};
};

// One issue of a collective.
struct CollectiveIssue {
  uint64_t group = 0, sequence = 0, bytes = 0;
  uint8_t op = 0;     // CollectiveOp
  int32_t peer = -1;  // point-to-point only
  bool p2p = false;
  int64_t time_ns = 0;             // issue
  int64_t done_ns = 0;             // completion where stamped, else 0
  int64_t since_backward_ns = -1;  // own time since the enclosing backward began, -1 outside of backward
};

// The same step on the GPU clock: between the last boundary events of two steps on the compute stream.
struct GpuStep {
  int64_t begin_ns = 0;  // mapped to the host's clock
  int64_t wall_ns = 0;   // sum(own) + sum(stalls) == wall
  LedgerNs own{};
  std::vector<Stall> stalls;
  std::vector<LedgerNs> segments;
  uint32_t host_bound =
      0;                  // bit per category: the GPU had run dry when the phase ended, as slow as the host launched it
  LedgerNs launching{};   // of own: time of a phase on the device during which the host was still launching it
  bool captured = false;  // ran as a CUDA graph: phases inside are not visible
};

// One collective on the device (NCCL): duration on this rank, waiting included.
struct DeviceOp {
  uint64_t group = 0, sequence = 0, bytes = 0;
  uint8_t op = 0;
  uint16_t peer = 0;
  int64_t begin_ns = 0, end_ns = 0;  // GPU clock mapped to host ns
};

// A failed allocation.
struct OutOfMemory {
  uint64_t requested_bytes = 0, allocated_bytes = 0, reserved_bytes = 0, capacity_bytes = 0;
  uint64_t largest_free_block_bytes = 0, device_free_bytes = 0, inactive_split_bytes = 0, grown_bytes = 0;
  uint64_t step = 0;
  Category phase = Category::kUnattributed;
};

struct RankStep : StepFacts {
  uint64_t step = 0;
  int64_t begin_ns = 0, end_ns = 0;  // CLOCK_MONOTONIC of the rank's node; end - begin is the step's wall time
  // Own time per category. Stalls are not in it: sum(own) + sum(stalls) == wall. comm_transfer, straggler_wait,
  // unresolved stay 0 here; the attribution splits the stalls into them once all ranks are known.
  LedgerNs own{};
  std::vector<Stall> stalls;  // in time order, disjoint
  // Own time before the first and after the last stall of the step, in the order of the sync points: segments[j] is
  // the ledger of own time between stall j-1 and stall j; segments.size() == stalls.size() + 1; their sum == own.
  std::vector<LedgerNs> segments;
  std::vector<CollectiveIssue> collectives;
  std::optional<GpuStep> gpu;  // jobs on a GPU, where its boundary events were resolved
  std::vector<DeviceOp> device_ops;

  int64_t wall_ns() const { return end_ns - begin_ns; }
  int64_t stall_ns() const {
    int64_t sum = 0;
    for (const Stall& s : stalls) sum += s.duration_ns;
    return sum;
  }
};

// A place in the program that waits for the device: "train.py:120".
struct SyncSite {
  std::string site;
  uint64_t count = 0;
  int64_t total_ns = 0;
};

// Something of the program's set-up that the hooks saw, told once (NameKind::kAdvice).
struct ConfigFact {
  std::string subject;  // ddp, loader, fsdp, threads, …
  uint64_t id = 0;      // tells objects of one subject apart; loaders: as in their records
  std::map<std::string, std::string> values;
};

// Before the first step: a place where all ranks meet was reached, or an operation was waited for, long enough to tell.
struct StartupMeeting {
  static constexpr int64_t kLongWaitNs = 1'000'000'000;
  uint64_t group = 0, sequence = 0;  // of the operation; of a place: 0, its number and how many came before of its kind
  bool waited = false;               // else a place
  int64_t begin_ns = 0, end_ns = 0;
};

// What happened to a rank outside of its completed steps.
struct RankLife {
  static constexpr size_t kMaxSyncSites = 16, kMaxStartupMeetings = 32;
  int32_t rank = -1, local_rank = -1, world_size = 0, node_rank = 0, attempt = 0, pid = 0;
  std::string hostname;
  int64_t process_start_ns = 0, first_step_ns = 0, last_step_ns = 0, end_ns = 0;  // 0 = not seen
  int64_t init_begin_ns = 0, init_end_ns = 0;                                     // init_process_group
  bool ended = false;                                                             // the process is gone
  bool clean_exit = false;                                                        // it went through its exit handlers
  bool stopped = false;  // alive when the job was told to stop from outside (Ctrl-C, SIGTERM): its end is no loss
  bool teardown_begun = false;
  int exit_signal = 0;                   // when known
  int exit_code = -1;                    // when known
  OomKill oom_kill = OomKill::kUnknown;  // where exit_signal is SIGKILL
  std::string exception;                 // uncaught, "Type: message"
  std::string exception_frames;          // where: "12 load train.py < 40 main train.py", innermost first; "" = not told
  int64_t exception_ns = 0;
  int64_t leaving_ns = 0;  // it gave up the group of all ranks, or came to its exit handlers; 0 = not seen
  uint64_t steps = 0;
  Category open_phase = Category::kUnattributed;  // what it was in when last seen
  std::string open_detail;
  LedgerNs startup{}, teardown{};
  uint64_t dropped_batches = 0;  // fetched before the first step, and no step used them; their time is in `startup`
  int64_t dropped_ns = 0;
  uint64_t records = 0, lost = 0, torn = 0;
  uint64_t device_memory_bytes = 0;  // capacity of its device as torch says; 0 = not known
  std::vector<OutOfMemory> out_of_memory;
  std::vector<SyncSite> sync_sites;  // in training steps; by total time, longest first, at most kMaxSyncSites
  std::vector<StartupMeeting> startup_meetings;  // oldest first, at most kMaxStartupMeetings
  std::vector<std::string> unavailable;          // "signal: reason"
  std::vector<ConfigFact> configuration;         // newest of each subject and id
  std::vector<uint64_t> training_loaders;        // whose batches led to gradients
  std::string device;                            // "cuda:0 NVIDIA H100 80GB HBM3", "cpu"; "" = not told
  bool group_destroyed = false;                  // destroy_process_group was called for the whole job

  // When it failed: an exception is older than the exit that follows it.
  int64_t failed_ns() const { return exception_ns > 0 ? std::min(exception_ns, end_ns) : end_ns; }
  // Its end is explained by a request to stop the run (Ctrl-C, SIGTERM) at this time. Ranks of a process group may have
  // got the signal well before we hear of it on a busy machine: then the exception itself tells.
  bool ended_by_stop(int64_t interrupted_ns) const {
    constexpr int64_t kHeardLateNs = 10'000'000'000;
    if (!ended || interrupted_ns == 0) return false;
    const bool keyboard = exception.starts_with("KeyboardInterrupt");
    return failed_ns() >= interrupted_ns - (keyboard ? kHeardLateNs : 0);
  }
};

}  // namespace stepscope
