// The parts that the open step of one rank is made of, and where it ends. A step's end is known only in retrospect
// (step_rule.h): up to the newest place where it may have ended stands one part, after it another; a part may be held
// apart while a newcomer among the optimizers shows what it is, and while nobody knows whether there is an optimizer at
// all, every backward is a part.
//
// A plain single-threaded object. Bounded: kMaxUndecided parts besides those three.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "align/step_accumulator.h"
#include "align/step_rule.h"
#include "align/thread_usage.h"

namespace stepscope {

class StepParts {
 public:
  static constexpr size_t kMaxUndecided = 4 * StepRule::kFallbackBackwards;

  // The first step begins.
  void begin(int64_t t);

  // It begins at `t` instead, and what came before is no part of it. Returns the ns that it had.
  int64_t begin_again(int64_t t);

  // Time goes on: own time of a category, or in a stall, which the next own time ends.
  void add_own(Category category, int64_t ns);
  bool stalled() const { return stall_.has_value(); }
  void begin_stall(const Stall& stall) { stall_ = stall; }
  void lengthen_stall(int64_t ns) { stall_->duration_ns += ns; }
  void end_stall();

  StepAccumulator& open() { return open_; }
  StepFacts& facts() { return open_.facts(); }
  StepFacts& facts_before() { return done_.facts(); }  // of the part up to the newest candidate
  // Of the part that `host_ns` lies in, nullptr where that is no longer open.
  StepFacts* facts_at(int64_t host_ns);
  // Completion stamp of a collective in any of the parts.
  void complete(uint64_t group, uint64_t sequence, uint8_t op, int64_t done_ns);
  void count_record() { ++records_; }
  void count_lost(uint32_t records) { lost_ += records; }

  StepRule& rule() { return rule_; }
  ThreadUsage& usage() { return usage_; }
  // What the rule says of an event at `t`.
  void apply(StepRule::Verdict verdict, int64_t t);
  // The run is over: what is open becomes a last step, where it is one.
  void finish();

  // Steps that ended, in order, without their number; the caller empties it.
  std::vector<RankStep>& closed() { return closed_; }

 private:
  struct Part {
    StepAccumulator work;
    int64_t end_ns;
  };
  void count_records();
  void candidate(int64_t t);
  void hold_candidate();
  void join_held();
  void close_held();
  void close_at_candidate(uint32_t tags = 0);
  void close_here(int64_t t);
  void keep_undecided(int64_t t);
  void resolve_undecided();
  void close(StepAccumulator& work, int64_t end_ns, uint32_t tags, uint64_t signature);

  StepRule rule_;
  ThreadUsage usage_;
  StepAccumulator done_, open_;  // up to the newest candidate boundary; after it
  int64_t candidate_ns_ = 0;
  std::optional<Part> held_;  // a step that ended, or a first part of the one in `done_` (StepRule)
  ThreadUsage::Totals usage_held_;
  std::vector<Part> undecided_;  // one per backward while it is unknown whether an optimizer exists
  std::optional<Stall> stall_;   // that goes on
  uint32_t records_ = 0, lost_ = 0;
  std::vector<RankStep> closed_;
};

}  // namespace stepscope
