// What the pipeline needs of one process of the job, wherever it runs: who it is, its steps, its life, its groups. Two
// make it: RankTail (its ring is on this node) and RemoteRank (what another node's agent told of it).
//
// Times are CLOCK_MONOTONIC of this node; of a process elsewhere as well as they can be told. Owned by the pipeline,
// one thread. Nothing here waits.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "align/name_book.h"
#include "align/rank_step.h"
#include "blackbox/ring_reader.h"

namespace stepscope {

class RankTail;
class RemoteRank;

// When it was through init_process_group, of a process that has trained since; 0 = not, or not known.
inline int64_t joined_ns(const RankLife& life) { return life.first_step_ns > 0 ? life.init_end_ns : 0; }

class RankSource {
 public:
  virtual ~RankSource() = default;

  // Takes in what is new; returns how full that found its buffer (0..1): how urgent the next time is.
  virtual double advance(uint64_t now_ns) = 0;
  // The process is gone, or nobody will hear of it again: closes what is open. `wait_status` as far as known.
  virtual void end(uint64_t now_ns, std::optional<int> wait_status) = 0;
  virtual void set_exit_status(int wait_status) = 0;  // learned later

  virtual std::vector<RankStep> take_steps() = 0;  // completed since the last call, in order
  virtual uint64_t next_step() const = 0;          // the number of the first of them
  // Its first steps that nobody has taken yet go on with these numbers, since somebody counted before; 0 = nobody did.
  virtual uint64_t counted_before() const = 0;
  virtual const std::vector<RankStep>& waiting_steps() const = 0;  // take_steps() will give these
  virtual uint64_t steps() const = 0;                              // completed

  virtual const blackbox::Identity& identity() const = 0;
  virtual RankLife life() const = 0;
  virtual bool ended() const = 0;
  virtual int64_t active_ns() const = 0;  // when it wrote its newest record; 0 = none seen
  virtual const std::map<uint64_t, ProcessGroup>& groups() const = 0;
  virtual const std::map<uint64_t, size_t>& communicators() const = 0;  // sizes, as NCCL tells
  virtual const NameBook::Names& names() const = 0;                     // by kind and id
  virtual blackbox::ReadStats totals() const = 0;
  virtual bool numbers_certain() const = 0;
  // The exception that ended a thread of the process, which then ended as it should; "" = none did.
  virtual std::string ended_thread() const = 0;

  virtual int64_t joined_ns() const = 0;  // as above, without a copy of the life
  // Optimizer calls that the rank has ended; and asks it to stamp completions of collectives until it has ended so
  // many.
  virtual uint64_t optimizer_ends() const = 0;
  virtual void ask_stamps(uint64_t until_optimizer_ends) = 0;
  // When it was last seen stopped by a signal (CLOCK_MONOTONIC); 0 = never.
  virtual int64_t stopped_ns() const = 0;

  virtual RankTail* local() { return nullptr; }     // its ring, where that is on this node
  virtual RemoteRank* remote() { return nullptr; }  // else who is told of it
  const RankTail* local() const { return const_cast<RankSource*>(this)->local(); }

  bool is_rank() const { return identity().rank >= 0 && identity().evidence != 0; }
  // Says which rank it is and has shown no evidence of it.
  bool is_starter() const { return identity().rank >= 0 && identity().evidence == 0; }
  // A starter that ended by itself, and not well: a rank that could not start.
  virtual bool failed_to_start() const { return false; }
};

}  // namespace stepscope
