// Collects what happens between two moments of one rank: own time by category, stalls, collectives, tags. Two of them
// in a row can be joined, because a step's end is known only in retrospect (step_rule.h).
//
// A plain value. Bounded: at most kMaxStalls stalls and kMaxCollectives issues are kept one by one; further stalls are
// merged into the last one, further issues are only counted (the step is then tagged lossy).
#pragma once

#include <cstdint>
#include <optional>

#include "align/rank_step.h"

namespace stepscope {

class StepAccumulator {
 public:
  static constexpr size_t kMaxStalls = 512;
  static constexpr size_t kMaxCollectives = 4096;

  explicit StepAccumulator(int64_t begin_ns = 0) : begin_ns_(begin_ns) { data_.segments.emplace_back(); }

  void add_own(Category category, int64_t ns);
  // Takes back `ns` of one category and gives it to another, newest segment first (a role that was learned late).
  void move_own(Category from, Category to, int64_t ns);
  void add_stall(const Stall& stall);
  void add_collective(const CollectiveIssue& issue);
  // Completion stamp of an issue that may still be here.
  bool complete(uint64_t group, uint64_t sequence, uint8_t op, int64_t done_ns);
  void add_records(uint32_t records, uint32_t lost);

  // Appends `later`, which began where this one ended; `later` is left empty, beginning at its own end.
  void join(StepAccumulator& later);

  // The step that ended at `end_ns`; leaves an empty accumulator that begins there.
  RankStep take(int64_t end_ns);

  StepFacts& facts() { return data_; }
  int64_t begin_ns() const { return begin_ns_; }
  void set_begin(int64_t ns) { begin_ns_ = ns; }
  bool empty() const { return total_ns_ == 0 && data_.records == 0; }

 private:
  RankStep data_;
  int64_t begin_ns_ = 0;
  int64_t total_ns_ = 0;
};

}  // namespace stepscope
