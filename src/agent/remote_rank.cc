#include "agent/remote_rank.h"

#include <algorithm>
#include <utility>

namespace stepscope {
namespace {

// 0 = not seen, and stays so.
template <class T>
void shift(T& at_ns, int64_t offset_ns) {
  if (at_ns != 0) at_ns = static_cast<T>(static_cast<uint64_t>(at_ns) + static_cast<uint64_t>(offset_ns));
}

void shift(RankLife& life, int64_t offset_ns) {
  for (int64_t* at : {&life.process_start_ns, &life.first_step_ns, &life.last_step_ns, &life.end_ns,
                      &life.init_begin_ns, &life.init_end_ns, &life.exception_ns})
    shift(*at, offset_ns);
  for (StartupMeeting& meeting : life.startup_meetings) {
    shift(meeting.begin_ns, offset_ns);
    shift(meeting.end_ns, offset_ns);
  }
}

void shift(RankStep& step, int64_t offset_ns) {
  shift(step.begin_ns, offset_ns), shift(step.end_ns, offset_ns);
  for (Stall& stall : step.stalls) shift(stall.begin_ns, offset_ns);
  for (CollectiveIssue& issue : step.collectives) shift(issue.time_ns, offset_ns), shift(issue.done_ns, offset_ns);
  for (DeviceOp& op : step.device_ops) shift(op.begin_ns, offset_ns), shift(op.end_ns, offset_ns);
  if (!step.gpu) return;
  shift(step.gpu->begin_ns, offset_ns);
  for (Stall& stall : step.gpu->stalls) shift(stall.begin_ns, offset_ns);
}

}  // namespace

void RemoteRank::take(RankNews news, int64_t offset_ns) {
  if (news.identity) {
    identity_ = std::move(*news.identity);
    shift(identity_.process_start_ns, offset_ns);
    shift(identity_.anchor_monotonic_ns, offset_ns);
    shift(identity_.life_changed_ns, offset_ns);
  }
  if (news.life) {
    life_ = std::move(*news.life);
    ended_thread_ = std::move(news.ended_thread);
    shift(life_, offset_ns);
  }
  life_.ended = life_.ended || news.ended;
  for (auto& [id, group] : news.groups)
    if (groups_.size() < kMaxKept || groups_.contains(id)) groups_[id] = std::move(group);
  for (const auto& [id, size] : news.communicators)
    if (communicators_.size() < kMaxKept || communicators_.contains(id)) communicators_[id] = size;
  for (std::string& text : news.facts)
    if (facts_.size() < kMaxKept && std::find(facts_.begin(), facts_.end(), text) == facts_.end())
      facts_.push_back(std::move(text));
  for (RankStep& step : news.steps) {
    if (step.step < next_) continue;
    next_ = step.step + 1;
    shift(step, offset_ns);
    ready_.push_back(std::move(step));
  }
  active_ns_ = news.active_ns;
  shift(active_ns_, offset_ns);
  optimizer_ends_ = news.optimizer_ends;
  totals_ = news.totals;
  numbers_certain_ = news.numbers_certain;
}

void RemoteRank::end(uint64_t, std::optional<int>) { ended_ = true; }

std::vector<RankStep> RemoteRank::take_steps() {
  taken_ = taken_ || !ready_.empty();
  return std::exchange(ready_, {});
}

}  // namespace stepscope
