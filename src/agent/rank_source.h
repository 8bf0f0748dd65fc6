// What the pipeline needs of a process that may be a rank, wherever it runs: one whose black box lies on this node
// (RankTail), or one that another node's agent tells of (RemoteRank). Steps are numbered as the process made them.
// Times are CLOCK_MONOTONIC of this node. One thread; nothing waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "align/rank_step.h"
#include "align/step_builder.h"
#include "blackbox/ring_reader.h"

namespace stepscope {

class RankTail;

class RankSource {
 public:
  RankSource() = default;
  RankSource(RankSource&&) = default;
  RankSource& operator=(RankSource&&) = default;
  virtual ~RankSource() = default;

  // Its black box, where that lies on this node: who asks a process for more than its steps needs it.
  virtual const RankTail* local() const { return nullptr; }

  // Takes in what is new. Returns how full that found the ring (0..1): how urgent the next call is.
  virtual double take_in(uint64_t now_ns) = 0;
  // The process is gone (or is given up): its open step is closed. `wait_status` as far as known.
  virtual void end(uint64_t now_ns, std::optional<int> wait_status) = 0;
  virtual bool ended() const = 0;

  virtual const blackbox::Identity& identity() const = 0;
  bool is_rank() const { return identity().rank >= 0 && identity().evidence != 0; }
  virtual int64_t active_ns() const = 0;  // when it wrote its newest record; 0 = none seen

  virtual std::vector<RankStep> take_steps() = 0;                  // completed since the last call, in order
  virtual const std::vector<RankStep>& waiting_steps() const = 0;  // take_steps() will give these
  virtual uint64_t steps() const = 0;                              // that it completed
  virtual uint64_t next_step() const = 0;                          // the first that take_steps() will give
  // Steps of this process that were counted before it was followed here and nobody has taken since: it goes on with
  // these numbers.
  virtual uint64_t counted_before() const = 0;
  virtual bool numbers_certain() const = 0;

  virtual RankLife life() const = 0;
  virtual const RankLife& told_life() const = 0;  // as its records tell it, without its header and end; costs nothing
  virtual const std::map<uint64_t, ProcessGroup>& groups() const = 0;
  virtual const std::map<uint64_t, size_t>& communicators() const = 0;  // sizes, as NCCL tells
  virtual std::vector<std::string> facts() const = 0;                   // "key=value"
  // The exception that ended a thread of the process, which then ended as it should; "" = none did.
  virtual std::string ended_thread() const = 0;
  virtual blackbox::ReadStats totals() const = 0;

  // Optimizer calls that the rank has ended.
  virtual uint64_t optimizer_ends() const = 0;
  // Asks the rank to stamp completions of collectives until so many of its optimizer calls have ended.
  virtual void ask_stamps(uint64_t until_optimizer_ends) = 0;
};

}  // namespace stepscope
