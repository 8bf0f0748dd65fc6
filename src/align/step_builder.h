// Turns the records of one rank into steps. Feed records in ring order; completed steps come out one optimizer call
// later (a boundary is known in retrospect, docs/design.md, Steps).
//
// A plain single-threaded object: no clock, no file. Same records, same steps. Memory is bounded: an open step keeps at
// most kMaxSpansPerStep spans, the rest is merged and the step tagged lossy.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "align/event.h"
#include "align/name_book.h"
#include "align/rank_step.h"

namespace stepscope {

class StepBuilder {
 public:
  explicit StepBuilder(uint32_t main_thread = 0);  // 0 = the thread of the first optimizer, backward or step event; see
                                                   // training_thread.h for programs that train in several
  ~StepBuilder();
  StepBuilder(StepBuilder&&) noexcept;
  StepBuilder& operator=(StepBuilder&&) noexcept;

  void push(const Event& event);
  void push_name(uint16_t kind, uint64_t id, const std::string& text);  // NameKind
  void note_lost(uint64_t count);                                       // records lost before the next pushed one

  // Steps whose end is certain, in order; each is returned once.
  std::vector<RankStep> take_completed();

  // The run of this rank is over (or its process died) at `end_ns`: closes the open step provisionally and accounts
  // for teardown. No event may follow.
  void finish(int64_t end_ns);

  RankLife& life();
  const RankLife& life() const;

  // What the training thread is in as of the newest event; in a stall what it interrupts.
  Category phase() const;
  // It waits there for other ranks or for a transfer.
  bool stalled() const;

  const std::map<uint64_t, ProcessGroup>& groups() const;
  const std::map<uint64_t, size_t>& communicators() const;  // sizes, as NCCL tells
  const NameBook::Names& names() const;                     // by kind and id, as pushed

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stepscope
