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
#include "agent/step_marks.h"
#include "align/rank_step.h"
#include "align/step_builder.h"
#include "align/whereabouts.h"
#include "base/result.h"
#include "blackbox/ring_reader.h"

namespace stepscope {

class RankTail {
 public:
  static Result<RankTail> open(const std::string& path);

  // Reads what is new; returns how many records that were. Never waits.
  size_t drain(uint64_t now_ns, bool final = false);

  // The process is gone (or is given up): reads to the end, closes the open step. `wait_status` as far as known.
  void end(uint64_t now_ns, std::optional<int> wait_status);
  void set_exit_status(int wait_status);  // learned later
  void set_oom_kill(OomKill seen) { builder_.life().oom_kill = seen; }

  // Goes on with the step numbers of an agent that died. Call before the first drain.
  void resume(const StepMark& mark);

  std::vector<RankStep> take_steps();  // completed since the last call, in order
  uint64_t next_step() const { return ready_.empty() ? steps() : ready_.front().step + offset_; }  // the first of them
  // Steps of this process that an agent before this one counted and nobody has taken since: it goes on with these
  // numbers.
  uint64_t counted_before() const { return offset_ > 0 && !taken_ ? next_step() : 0; }
  const std::vector<RankStep>& waiting_steps() const { return ready_; }  // take_steps() will give these
  RankLife life() const;
  StepMark mark() const;

  bool is_rank() const { return identity_.rank >= 0 && identity_.evidence != 0; }
  // Says which rank it is and has shown no evidence of it.
  bool is_starter() const { return identity_.rank >= 0 && identity_.evidence == 0; }
  bool exited_cleanly() const;  // of one that has ended
  // A starter that ended by itself, and not well: a rank that could not start.
  bool failed_to_start() const;
  const blackbox::Identity& identity() const { return identity_; }
  const std::string& path() const { return reader_.path(); }
  const StepBuilder& builder() const { return builder_; }
  blackbox::ReadStats totals() const { return reader_.totals(); }
  uint64_t capacity() const { return reader_.capacity(); }
  bool ended() const { return ended_; }
  int64_t active_ns() const { return active_ns_; }  // when it wrote its newest record; 0 = none seen
  // Optimizer calls that the rank has ended, as counted here: records that were lost count by the share of the others.
  uint64_t optimizer_ends() const;
  // Asks the rank to stamp completions of collectives until so many of its optimizer calls have ended.
  void ask_stamps(uint64_t until_optimizer_ends);
  bool numbers_certain() const { return numbers_certain_; }
  // The exception that ended a thread of the process, which then ended as it should; "" = none did.
  std::string ended_thread() const;
  uint64_t steps() const { return builder_.life().steps + offset_; }

  // For the watch over jobs that stand still.
  const Whereabouts& whereabouts() const { return whereabouts_; }
  // The step that it is in: the newest completed one is told late, an optimizer's end at once.
  uint64_t steps_begun() const;
  bool leaving() const;  // teardown, or its exit handlers, have begun
  int stack_signal() const { return reader_.stack_signal(); }
  std::optional<blackbox::StackReading> stack() const { return reader_.stack(); }
  std::string no_stacks() const;  // why it cannot be asked where it is

  // For who asks the rank at a moment what it is in then (line_sampler.h): kept from now on, or no longer.
  void watch_phases(bool on);
  const PhaseTrack& phases() const { return phases_; }
  void forget_phases_before(int64_t at_ns) { phases_.forget_before(at_ns); }

 private:
  explicit RankTail(blackbox::RingReader reader);
  void refresh_identity();
  void apply_mark();
  void push(const std::vector<blackbox::Record>& records);

  blackbox::RingReader reader_;
  StepBuilder builder_;
  Whereabouts whereabouts_;
  PhaseTrack phases_;
  blackbox::Identity identity_;
  std::vector<blackbox::Record> records_;  // reused
  std::vector<blackbox::Name> names_;      // reused
  std::vector<RankStep> ready_;            // completed, before renumbering
  uint64_t offset_ = 0;                    // steps counted by a predecessor and no longer in the ring
  std::optional<StepMark> before_;
  int64_t active_ns_ = 0;
  int64_t cut_ns_ = 0;  // where the ring began after a restart
  std::optional<int> wait_status_;
  uint64_t optimizer_ends_ = 0;  // among the records that were read
  bool ended_ = false, drained_ = false, taken_ = false, numbers_certain_ = true;
};

}  // namespace stepscope
