// A process on another node, as that node's agent told of it. The node inbox fills it; to the pipeline it is a process
// like any other. Times are moved to this node's clock as they come.
//
// An end that nobody told is none: a process of a node that fell silent was not seen to end (life().ended stays false).
// Bounded: kMostWaiting steps that nobody takes; the oldest go first, and are counted.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/node_frame.h"
#include "agent/rank_source.h"

namespace stepscope {

class RemoteRank final : public RankSource {
 public:
  static constexpr size_t kMostWaiting = 4096;

  explicit RemoteRank(std::string hostname);

  // `ahead_ns`: how far this node's clock is ahead of the other's. `newest`: no frame behind this one was taken in
  // before it; of an older one only steps count that nobody has taken yet.
  void take(ProcessNews news, int64_t ahead_ns, bool newest);
  // The clocks turned out to be so much farther apart: what was told is moved; steps that are told stay where they are.
  void move_by(int64_t ahead_ns);
  // What ask_stamps() asked for since the last call.
  std::optional<uint64_t> take_request() { return std::exchange(stamps_until_, std::nullopt); }
  // Lines of its code would explain something: its node is asked to sample them, until it is told otherwise.
  void want_lines(bool on) { wants_lines_ = on; }
  bool wants_lines() const { return wants_lines_ && !ended_; }
  int lines_told() const { return lines_told_; }  // answers that came
  bool told_end() const { return told_.ended; }
  uint64_t unsent() const { return now_.unsent; }  // steps that its node dropped
  uint64_t dropped() const { return dropped_; }    // steps that came too late or too many
  std::optional<uint64_t> newest_step() const;     // that came

  double advance(uint64_t) override { return 0; }
  void end(uint64_t now_ns, std::optional<int> wait_status) override;
  void set_exit_status(int) override {}  // its own node tells
  std::vector<RankStep> take_steps() override;
  uint64_t next_step() const override { return waiting_.empty() ? steps() : waiting_.front().step; }
  uint64_t counted_before() const override { return taken_ ? 0 : next_step(); }
  const std::vector<RankStep>& waiting_steps() const override { return waiting_; }
  uint64_t steps() const override { return next_; }
  const blackbox::Identity& identity() const override { return identity_; }
  RankLife life() const override;
  bool ended() const override { return ended_; }
  int64_t active_ns() const override { return now_.active_ns; }
  const std::map<uint64_t, ProcessGroup>& groups() const override { return groups_; }
  const std::map<uint64_t, size_t>& communicators() const override { return communicators_; }
  const NameBook::Names& names() const override { return facts_; }
  blackbox::ReadStats totals() const override { return {now_.records, now_.lost, now_.torn, now_.damaged}; }
  bool numbers_certain() const override { return now_.numbers_certain; }
  std::string ended_thread() const override { return ended_thread_; }
  uint64_t optimizer_ends() const override { return now_.optimizer_ends; }
  void ask_stamps(uint64_t until_optimizer_ends) override { stamps_until_ = until_optimizer_ends; }
  int64_t stopped_ns() const override { return now_.stopped_ns; }
  int64_t joined_ns() const override { return ::stepscope::joined_ns(told_); }
  RemoteRank* remote() override { return this; }

 private:
  void put(RankStep step);

  blackbox::Identity identity_;
  RankLife told_;
  ProcessNow now_;
  std::string ended_thread_;
  std::map<uint64_t, ProcessGroup> groups_;
  std::map<uint64_t, size_t> communicators_;
  NameBook::Names facts_;
  std::vector<RankStep> waiting_;
  uint64_t next_ = 0;   // behind the newest that came
  uint64_t given_ = 0;  // behind the newest that was taken
  uint64_t dropped_ = 0;
  std::optional<uint64_t> stamps_until_;
  int lines_told_ = 0;
  bool taken_ = false, ended_ = false, wants_lines_ = false;
};

}  // namespace stepscope
