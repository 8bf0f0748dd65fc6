#include "agent/remote_rank.h"

#include <algorithm>
#include <utility>

#include "agent/lay_life.h"

namespace stepscope {
namespace {

constexpr int64_t kMostNs = int64_t{1} << 61;

// 0 stays "not seen".
void move(int64_t& at_ns, int64_t by_ns) {
  if (at_ns != 0) at_ns = std::max<int64_t>(1, std::clamp(at_ns, -kMostNs, kMostNs) + by_ns);
}
// What happened before this node was started is told as its very beginning.
void move(uint64_t& at_ns, int64_t by_ns) {
  if (at_ns == 0) return;
  auto wide = static_cast<int64_t>(std::min<uint64_t>(at_ns, kMostNs));
  move(wide, by_ns);
  at_ns = static_cast<uint64_t>(wide);
}

void move(blackbox::Identity& who, int64_t by_ns) {
  for (uint64_t* at : {&who.process_start_ns, &who.anchor_monotonic_ns, &who.life_changed_ns}) move(*at, by_ns);
}

void move(ProcessNow& now, int64_t by_ns) {
  move(now.active_ns, by_ns), move(now.last_step_ns, by_ns), move(now.stopped_ns, by_ns);
}

void move(RankLife& life, int64_t by_ns) {
  for (int64_t* at : {&life.first_step_ns, &life.end_ns, &life.init_begin_ns, &life.init_end_ns, &life.exception_ns})
    move(*at, by_ns);
  for (StartupMeeting& meeting : life.startup_meetings) move(meeting.begin_ns, by_ns), move(meeting.end_ns, by_ns);
}

void move(RankStep& step, int64_t by_ns) {
  step.begin_ns += by_ns, step.end_ns += by_ns;
  for (Stall& stall : step.stalls) stall.begin_ns += by_ns;
  for (CollectiveIssue& issue : step.collectives) {
    issue.time_ns += by_ns;
    if (issue.done_ns != 0) issue.done_ns += by_ns;
  }
  for (DeviceOp& op : step.device_ops) op.begin_ns += by_ns, op.end_ns += by_ns;
  if (!step.gpu) return;
  step.gpu->begin_ns += by_ns;
  for (Stall& stall : step.gpu->stalls) stall.begin_ns += by_ns;
}

}  // namespace

RemoteRank::RemoteRank(std::string hostname) { identity_.hostname = std::move(hostname); }

void RemoteRank::take(ProcessNews news, int64_t ahead_ns, bool newest) {
  ahead_ns = std::clamp(ahead_ns, -kMostNs, kMostNs);
  for (RankStep& step : news.steps) {
    move(step, ahead_ns);
    put(std::move(step));
  }
  lines_told_ += static_cast<int>(news.code.size());
  if (!newest || ended_) return;
  now_ = news.now;
  move(now_, ahead_ns);
  if (news.identity) {
    identity_ = std::move(*news.identity);
    move(identity_, ahead_ns);
  }
  if (news.life) {
    told_ = std::move(*news.life);
    move(told_, ahead_ns);
    ended_thread_ = std::move(news.ended_thread);
  }
  for (auto& [id, group] : news.groups) groups_.insert_or_assign(id, std::move(group));
  for (const auto& [id, size] : news.communicators) communicators_.insert_or_assign(id, size);
  for (auto& [key, text] : news.facts) facts_.insert_or_assign(key, std::move(text));
}

void RemoteRank::move_by(int64_t ahead_ns) { move(identity_, ahead_ns), move(now_, ahead_ns), move(told_, ahead_ns); }

void RemoteRank::put(RankStep step) {
  const auto at = std::lower_bound(waiting_.begin(), waiting_.end(), step.step,
                                   [](const RankStep& s, uint64_t number) { return s.step < number; });
  if (step.step < given_ || (at != waiting_.end() && at->step == step.step)) {
    ++dropped_;
    return;
  }
  next_ = std::max(next_, step.step + 1);
  waiting_.insert(at, std::move(step));
  if (waiting_.size() <= kMostWaiting) return;
  const size_t many = waiting_.size() - kMostWaiting / 2;
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(many));
  dropped_ += many;
}

std::vector<RankStep> RemoteRank::take_steps() {
  taken_ = taken_ || !waiting_.empty();
  given_ = next_;
  return std::exchange(waiting_, {});
}

std::optional<uint64_t> RemoteRank::newest_step() const { return next_ > 0 ? std::optional(next_ - 1) : std::nullopt; }

void RemoteRank::end(uint64_t, std::optional<int>) { ended_ = true; }

RankLife RemoteRank::life() const {
  RankLife life = told_;
  lay_identity(identity_, life);
  life.steps = next_;
  life.last_step_ns = now_.last_step_ns;
  life.open_phase = now_.open_phase;
  life.records = now_.records, life.lost = now_.lost, life.torn = now_.torn;
  return life;
}

}  // namespace stepscope
