// A rank process of another node, as that node's agent tells of it (node_frame.h). Times are mapped to this node's
// clock by the offset that comes with the news. Its end is what was told: given up here, it is not taken for dead.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "agent/node_frame.h"
#include "agent/rank_source.h"

namespace stepscope {

class RemoteRank final : public RankSource {
 public:
  // Steps that were told before are left out. `offset_ns`: this node's clock minus the other's.
  void take(RankNews news, int64_t offset_ns);
  // Up to which optimizer end completions shall be stamped; 0 = not asked.
  uint64_t stamps_until() const { return stamps_until_; }

  double take_in(uint64_t) override { return 0; }
  void end(uint64_t now_ns, std::optional<int> wait_status) override;
  bool ended() const override { return ended_; }
  const blackbox::Identity& identity() const override { return identity_; }
  int64_t active_ns() const override { return active_ns_; }
  std::vector<RankStep> take_steps() override;
  const std::vector<RankStep>& waiting_steps() const override { return ready_; }
  uint64_t steps() const override { return next_; }
  uint64_t next_step() const override { return ready_.empty() ? next_ : ready_.front().step; }
  uint64_t counted_before() const override { return taken_ ? 0 : next_step(); }
  bool numbers_certain() const override { return numbers_certain_; }
  RankLife life() const override { return life_; }
  const RankLife& told_life() const override { return life_; }
  const std::map<uint64_t, ProcessGroup>& groups() const override { return groups_; }
  const std::map<uint64_t, size_t>& communicators() const override { return communicators_; }
  std::vector<std::string> facts() const override { return facts_; }
  std::string ended_thread() const override { return ended_thread_; }
  blackbox::ReadStats totals() const override { return totals_; }
  uint64_t optimizer_ends() const override { return optimizer_ends_; }
  void ask_stamps(uint64_t until_optimizer_ends) override { stamps_until_ = until_optimizer_ends; }

 private:
  static constexpr size_t kMaxKept = 4096;  // groups, communicators, facts

  blackbox::Identity identity_;
  RankLife life_;
  std::string ended_thread_;
  std::map<uint64_t, ProcessGroup> groups_;
  std::map<uint64_t, size_t> communicators_;
  std::vector<std::string> facts_;
  std::vector<RankStep> ready_;
  blackbox::ReadStats totals_;
  int64_t active_ns_ = 0;
  uint64_t next_ = 0, optimizer_ends_ = 0, stamps_until_ = 0;
  bool ended_ = false, taken_ = false, numbers_certain_ = true;
};

}  // namespace stepscope
