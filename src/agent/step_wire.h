// How the completed steps of one process lie in a frame (node_frame.h): each against the one before it. `time_unit_ns`
// is a power of two. One coder per process and frame; pure.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "agent/wire_words.h"
#include "align/rank_step.h"

namespace stepscope {

class StepWire {
 public:
  // Of steps of about this length.
  static uint32_t time_unit_ns(int64_t wall_ns);
  explicit StepWire(uint32_t time_unit_ns) : unit_ns_(time_unit_ns) {}

  void put(WireOut& out, const RankStep& step);
  void take(WireIn& in, RankStep& step);

 private:
  struct Timeline {  // of the step before
    std::vector<Stall> stalls;
    std::vector<LedgerNs> segments;  // in units, as stall durations are
    std::vector<uint64_t> masks;
    std::vector<int64_t> stall_units;
  };
  template <class A>
  void step(A& wire, RankStep& step);
  template <class A>
  int64_t timeline(A& wire, Timeline& before, int64_t& begin_ns, LedgerNs& own, std::vector<LedgerNs>& segments,
                   std::vector<Stall>& stalls);
  template <class A>
  void stall_place(A& wire, Stall& stall, const Stall* before);
  template <class A>
  void collectives(A& wire, RankStep& step);
  template <class A>
  void device_ops(A& wire, RankStep& step);
  template <class A>
  void group(A& wire, uint64_t& id);
  template <class A>
  void time(A& wire, int64_t& ns);

  uint32_t unit_ns_;
  RankStep before_;
  Timeline host_, gpu_;
  std::map<uint64_t, size_t> group_numbers_;
  std::vector<uint64_t> groups_;
  bool first_ = true;
};

}  // namespace stepscope
