// Follows one ring: records become events, events become steps of that rank. One per process that opened a black box;
// whether the process is a rank is decided on evidence (reference: rank number known and evidence in the header).
//
// Owns the reader and the step builder. Knows no engine and no other rank. One thread. Memory is bounded by the step
// builder; one drain reads at most one ring's worth of records, so that a furious writer cannot hold the agent.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/phase_track.h"
#include "agent/rank_source.h"
#include "agent/step_marks.h"
#include "align/rank_step.h"
#include "align/step_builder.h"
#include "align/whereabouts.h"
#include "base/result.h"
#include "blackbox/ring_reader.h"

namespace stepscope {

class RankTail final : public RankSource {
 public:
  static Result<RankTail> open(const std::string& path);

  // Reads what is new; returns how many records that were. Never waits.
  size_t drain(uint64_t now_ns, bool final = false);
  double advance(uint64_t now_ns) override {
    return static_cast<double>(drain(now_ns)) / static_cast<double>(capacity());
  }

  // The process is gone (or is given up): reads to the end, closes the open step. `wait_status` as far as known.
  void end(uint64_t now_ns, std::optional<int> wait_status) override;
  void set_exit_status(int wait_status) override;
  void set_oom_kill(OomKill seen) { builder_.life().oom_kill = seen; }

  // Goes on with the step numbers of an agent that died. Call before the first drain.
  void resume(const StepMark& mark);

  std::vector<RankStep> take_steps() override;
  uint64_t next_step() const override { return ready_.empty() ? steps() : ready_.front().step + offset_; }
  uint64_t counted_before() const override { return offset_ > 0 && !taken_ ? next_step() : 0; }
  const std::vector<RankStep>& waiting_steps() const override { return ready_; }
  RankLife life() const override;
  StepMark mark() const;

  // For other nodes: copies of the steps that complete from now on are kept, with the numbers that take_steps() gives
  // them, until they are taken (the newest kMostCopies); or no longer.
  static constexpr size_t kMostCopies = 4096;
  void copy_steps(bool on);
  std::vector<RankStep> take_copies() { return std::exchange(copies_, {}); }

  bool exited_cleanly() const;  // of one that has ended
  bool failed_to_start() const override;
  const blackbox::Identity& identity() const override { return identity_; }
  const std::string& path() const { return reader_.path(); }
  const StepBuilder& builder() const { return builder_; }
  const std::map<uint64_t, ProcessGroup>& groups() const override { return builder_.groups(); }
  const std::map<uint64_t, size_t>& communicators() const override { return builder_.communicators(); }
  const NameBook::Names& names() const override { return builder_.names(); }
  blackbox::ReadStats totals() const override { return reader_.totals(); }
  uint64_t capacity() const { return reader_.capacity(); }
  bool ended() const override { return ended_; }
  int64_t active_ns() const override { return active_ns_; }
  // As counted here: records that were lost count by the share of the others.
  uint64_t optimizer_ends() const override;
  void ask_stamps(uint64_t until_optimizer_ends) override;
  int64_t stopped_ns() const override { return stopped_ns_; }
  int64_t joined_ns() const override { return ::stepscope::joined_ns(builder_.life()); }
  void note_stopped(int64_t at_ns) { stopped_ns_ = at_ns; }
  bool numbers_certain() const override { return numbers_certain_; }
  std::string ended_thread() const override;
  uint64_t steps() const override { return builder_.life().steps + offset_; }

  // For the watch over jobs that stand still.
  const Whereabouts& whereabouts() const { return whereabouts_; }
  // The step that it is in: the newest completed one is told late, an optimizer's end at once.
  uint64_t steps_begun() const;
  bool leaving() const;  // teardown, or its exit handlers, have begun
  int stack_signal() const { return reader_.stack_signal(); }
  bool may_ask(uint32_t thread) const { return reader_.may_ask(thread); }
  std::optional<blackbox::StackReading> stack() const { return reader_.stack(); }
  std::string no_stacks() const;  // why it cannot be asked where it is

  // For who asks the rank at a moment what it is in then (line_sampler.h): kept from now on, or no longer.
  void watch_phases(bool on);
  const PhaseTrack& phases() const { return phases_; }
  void forget_phases_before(int64_t at_ns) { phases_.forget_before(at_ns); }

  RankTail* local() override { return this; }
  using RankSource::local;

 private:
  explicit RankTail(blackbox::RingReader reader);
  void refresh_identity();
  void apply_mark();
  void push(const std::vector<blackbox::Record>& records);
  void copy_from(size_t first);

  blackbox::RingReader reader_;
  StepBuilder builder_;
  Whereabouts whereabouts_;
  PhaseTrack phases_;
  blackbox::Identity identity_;
  std::vector<blackbox::Record> records_;  // reused
  std::vector<blackbox::Name> names_;      // reused
  std::vector<RankStep> ready_;            // completed, before renumbering
  std::vector<RankStep> copies_;           // for other nodes
  uint64_t offset_ = 0;                    // steps counted by a predecessor and no longer in the ring
  std::optional<StepMark> before_;
  int64_t active_ns_ = 0;
  int64_t cut_ns_ = 0;  // where the ring began after a restart
  std::optional<int> wait_status_;
  uint64_t optimizer_ends_ = 0;  // among the records that were read
  int64_t stopped_ns_ = 0;
  bool ended_ = false, drained_ = false, taken_ = false, numbers_certain_ = true, copies_on_ = false;
};

}  // namespace stepscope
