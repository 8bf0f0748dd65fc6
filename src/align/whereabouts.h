// Where a rank is in the program while it runs: its last progress, the collectives it has issued in each group, the one
// it waits for, and how long it has been silent before in each phase. For the watch over jobs that stand still; steps
// are told by the step builder.
//
// A plain single-threaded object, fed with the records in ring order. Bounded: kMostGroups groups, the newest kKept
// operations of each. Constant time per record.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "align/category.h"
#include "align/device_progress.h"
#include "align/event.h"
#include "align/op_turns.h"

namespace stepscope {

// One operation of a group, as this rank called it.
struct IssuedOp {
  uint64_t sequence = 0, bytes = 0;
  uint8_t op = 0;  // CollectiveOp
  int64_t time_ns = 0;
  uint64_t step_ends = 0;    // that the rank had seen then
  bool in_backward = false;  // of gradients, most likely
  uint64_t what = 0;         // the same number for the same: group, operation, size where ranks must agree, in backward
  uint64_t after = 0;        // `what` of the one that the rank called before, in whatever group; 0 = none
};

bool must_agree_in_size(uint8_t op);  // all members must call it with as many bytes

struct PlaceInGroup {
  uint64_t issued = 0;  // operations so far: the sequence of the next one
  uint64_t size = 0;    // of a communicator of NCCL, as it says itself; 0 = not told
  std::deque<IssuedOp> newest;

  const IssuedOp* find(uint64_t sequence) const;
  void add(const IssuedOp& op);  // the newest; keeps Whereabouts::kKept
};

// The operation that blocks a rank.
struct AwaitedOp {
  uint64_t group = 0, sequence = 0;
  int32_t peer = -1;  // a message; -1 = a collective
  bool sends = false;
  int64_t since_ns = 0;
};

// A batch that a loader worker is at.
struct WorkerFetch {
  uint64_t worker = 0, loader = 0;
};

class Whereabouts {
 public:
  static constexpr size_t kMostGroups = 64, kMostWorkers = 1024, kKept = 64, kMostWalls = 64;
  static constexpr int64_t kSilenceNs = 200'000'000;  // a shorter one is none

  // `phase`: what the training thread was in before this record; looked at only where the record breaks a silence.
  void push(const Event& event, Category phase);
  bool breaks_silence(const Event& event) const {
    return progress_ns_ > 0 && static_cast<int64_t>(event.time_ns) - progress_ns_ >= kSilenceNs;
  }

  int64_t progress_ns() const { return progress_ns_; }  // newest record that is progress of the training; 0 = none
  int64_t step_end_ns() const { return step_end_ns_; }  // newest end of an optimizer or a marked step; 0 = none
  uint32_t thread() const { return thread_; }           // that trains; 0 = not known
  bool in_step() const { return in_step_; }             // a forward or backward has begun since
  bool in_init() const { return init_since_ns_ > 0; }   // inside init_process_group
  int64_t init_since_ns() const { return init_since_ns_; }
  bool joined() const { return joined_; }  // init_process_group has returned
  std::optional<AwaitedOp> awaited() const;
  const std::map<uint64_t, PlaceInGroup>& groups() const { return groups_; }
  const OpTurns& turns() const { return turns_; }
  // How far its device is; nullopt: not known, or it exchanges messages. A collective that a device has left, all had
  // come to; of a message that is not so.
  std::optional<DevicePlace> device_place() const { return messages_ ? std::nullopt : device_.place(); }
  // The loader whose batch the training thread waits for, or makes; and who is at a batch of it, by process: one that
  // ended at it is among them still.
  std::optional<uint64_t> in_fetch() const { return in_fetch_; }
  const std::map<uint32_t, WorkerFetch>& worker_fetches() const { return worker_fetches_; }
  // Its data came to an end since it trained last; whether data is seen at all (a DataLoader's is).
  bool data_ended() const { return data_ended_; }
  bool data_seen() const { return data_seen_; }
  double usual_step_s() const;                      // median of the newest; 0 = none
  double longest_silence_s(Category phase) const {  // that began in this phase and ended
    return static_cast<double>(silences_ns_[index(phase)]) * 1e-9;
  }

 private:
  PlaceInGroup* place_in(uint64_t group);  // null: there are kMostGroups already
  void note_issue(const Event& event);
  void add(uint64_t group, IssuedOp op);
  void count_issue(uint64_t group, uint64_t sequence, int64_t time_ns);
  void note_nccl(const Event& event);
  void note_worker(const Event& event);
  void note_step_end(int64_t at_ns);

  int64_t progress_ns_ = 0, step_end_ns_ = 0, init_since_ns_ = 0;
  uint32_t thread_ = 0;
  bool in_step_ = false, joined_ = false, own_ended_ = false;
  bool data_ended_ = false, data_seen_ = false, messages_ = false;
  std::optional<uint64_t> in_fetch_;
  std::map<uint32_t, WorkerFetch> worker_fetches_;
  bool hooks_ = false;  // of process groups report operations: what NCCL says of them is no other one
  int backwards_ = 0;
  std::optional<AwaitedOp> wait_;         // inside Work.wait or a synchronous call
  std::optional<AwaitedOp> in_backward_;  // newest issued since backward began
  int64_t own_end_ns_ = 0;
  uint64_t step_ends_ = 0;
  std::map<uint64_t, PlaceInGroup> groups_;
  uint64_t newest_ = 0;  // IssuedOp::what
  OpTurns turns_;
  DeviceProgress device_;
  std::deque<int64_t> walls_ns_;
  std::array<int64_t, kCategoryCount> silences_ns_{};
};

}  // namespace stepscope
