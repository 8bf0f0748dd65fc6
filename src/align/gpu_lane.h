// The device side of one rank's steps: boundary events of the compute stream (Kind::GpuMark) become a second ledger on
// the GPU clock (docs/design.md, Ledger).
//
// A GPU step lies between the last boundary events of two host steps. Between its events the stream is in a phase
// (busy or idle inside: not visible at boundaries), stalled at a wait point (the tail of backward, wait points of the
// library), or between phases: then it is charged to what the host was doing at that time (HostSpans).
//
// Resolved events arrive a few ms after the host's records; wants() says whether a step must still wait for them.
// A plain single-threaded object. Bounded: at most kMaxMarks events and kMaxSpans host spans are kept.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "align/rank_step.h"
#include "align/span_stack.h"

namespace stepscope {

// What the training thread was in, merged runs of one category. Times are host ns.
struct HostSpan {
  int64_t begin_ns, end_ns;
  Category category;
  bool stall;
};

class GpuLane {
 public:
  static constexpr size_t kMaxMarks = 65536, kMaxSpans = 16384;
  // After so long without the events of a step, it goes on without them.
  static constexpr int64_t kPatienceNs = 3'000'000'000;

  // A resolved event. host_ns: when the host marked it; gpu_ns: GPU clock; mapped_ns: the same on the host's clock.
  void mark(int64_t host_ns, uint16_t kind, uint64_t id, int64_t gpu_ns, int64_t mapped_ns, uint16_t flags);
  void host_span(int64_t begin_ns, int64_t end_ns, Category category, bool stall);
  // A backward that ended at this host time issued collectives: its tail on the GPU is a stall of this group.
  void backward_meets(int64_t end_ns, uint64_t group, uint64_t sequence);
  // The host waits for this collective or message from `begin_ns` on, until `end_ns` tells when it no longer did: a
  // wait point of the stream that it marks meanwhile is for the same.
  void host_waits(int64_t begin_ns, uint64_t group, uint64_t sequence, StallSyncPoint sync_point);
  void host_waited(int64_t end_ns);
  // The host issued a collective (CollectiveOp) of this group: wait points of a library that say only what they wait
  // for are its group's.
  void issued(int64_t host_ns, uint8_t op, uint64_t group);

  bool seen() const { return seen_; }
  // True when events of a step that ended at `end_ns` may still come; `now_ns` is the newest record's time.
  bool wants(int64_t end_ns, int64_t now_ns) const;
  // The GPU side of the host step (begin_ns, end_ns]; nullopt when its boundary was not resolved. Forgets what is
  // older.
  std::optional<GpuStep> take(int64_t begin_ns, int64_t end_ns);

 private:
  struct Mark {
    int64_t host_ns, gpu_ns, mapped_ns;
    uint16_t kind, flags;
    uint64_t id;
  };
  struct SyncPoint {
    int64_t end_ns;
    uint64_t group, sequence;
  };
  struct HostWait {
    int64_t begin_ns, end_ns;
    uint64_t group, sequence;
    StallSyncPoint sync_point;
  };
  struct Issue {
    int64_t host_ns;
    uint8_t op;
    uint64_t group;
  };
  using WaitCounts = std::map<std::pair<uint64_t, uint64_t>, uint64_t>;  // by group and wait point, in a step
  void name_wait(OpenSpan& span, const Mark& mark, WaitCounts& counts) const;
  uint64_t group_of(GpuWaitPoint point, int64_t host_ns) const;  // 0 = not told
  void charge_gap(GpuStep& out, const Mark& from, const Mark& to) const;

  std::deque<Mark> marks_;
  std::deque<HostSpan> spans_;
  std::deque<SyncPoint> sync_points_;
  std::deque<HostWait> waits_;
  std::deque<Issue> issues_;      // where the group of an operation changes
  std::optional<Mark> boundary_;  // last event of the step before
  SpanStack stack_;
  bool seen_ = false;
};

// A stall ends with the last collective that ran during it; what the compute stream did after that (DDP copies
// gradients out of its buckets) is own work of the phase. Of stalls during which no timed collective ran nothing is
// known.
//
// Collectives are timed in samples of the steps: in a step without times that work is as long as in the newest step
// that had them, place by place, where the step has as many stalls.
class StallEnds {
 public:
  void apply(const std::vector<DeviceOp>& ops, GpuStep& step);

 private:
  std::vector<int64_t> after_ns_;  // own work at the end of each stall, in the newest timed step
};

}  // namespace stepscope
