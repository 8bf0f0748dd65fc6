#include "align/training_thread.h"

#include <algorithm>
#include <utility>

#include "blackbox/event_kind.h"

namespace stepscope {

namespace {

bool is_training(Kind kind, uint64_t a) {
  return kind == Kind::kOptimizer || kind == Kind::kStep || kind == Kind::kScalerStep ||
         (kind == Kind::kBackward && a == 1);
}

// Of another thread: what may be needed once it is followed. Workers are processes of their own.
bool is_kept(const Event& e, Kind kind) {
  if (edge_of(e.kind) != Edge::kMark) return kind != Kind::kWorkerFetch;
  return kind == Kind::kUsage || kind == Kind::kShape || kind == Kind::kBackwardOwn;
}

}  // namespace

uint32_t TrainingThread::Other::newly() const { return *std::max_element(std::begin(ends), std::end(ends)); }

void TrainingThread::follow(uint32_t thread) {
  changed_ = changed_ || followed_ != thread;
  followed_ = thread;
  certain_ = true;
  if (const auto found = others_.find(thread); found != others_.end()) {
    handed_over_ = std::move(found->second.records);
    found->second = Other{.steps = found->second.steps};
  }
}

// Whatever another thread did in the meantime, it did at the same time.
void TrainingThread::followed_trains() {
  for (auto& [thread, other] : others_) {
    other.steps += other.newly();
    std::fill(std::begin(other.ends), std::end(other.ends), 0u);
    other.records.clear();
  }
}

bool TrainingThread::follows(const Event& e, bool idle) {
  const Kind kind = kind_of(e.kind);
  const bool training = is_training(kind, e.a);
  if (followed_ == 0) followed_ = e.thread;
  if (training && !certain_) follow(e.thread);
  if (e.thread == followed_) {
    if (training && !others_.empty()) followed_trains();
    return true;
  }
  if (!is_kept(e, kind) || (others_.size() >= kMaxOthers && !others_.contains(e.thread))) return false;
  Other& other = others_[e.thread];
  other.trains = other.trains || training;
  if (training && edge_of(e.kind) == Edge::kBegin && idle && other.newly() >= kStepsToFollow) {
    follow(e.thread);
    return true;
  }
  if (other.records.size() >= kMaxKept) other.records.pop_front();
  other.records.push_back(e);
  if (edge_of(e.kind) == Edge::kEnd) {
    if (kind == Kind::kOptimizer) ++other.ends[0];
    if (kind == Kind::kStep) ++other.ends[1];
    if (kind == Kind::kBackward && e.a == 1) ++other.ends[2];
  }
  return false;
}

std::deque<Event> TrainingThread::take_records() { return std::exchange(handed_over_, {}); }
bool TrainingThread::take_changed() { return std::exchange(changed_, false); }

bool TrainingThread::last_call(bool idle) {
  if (!idle) return false;
  for (const auto& [thread, other] : others_)
    if (other.newly() > 0) return follow(thread), true;
  return false;
}

uint32_t TrainingThread::at_the_same_time() const {
  const auto trained = [](const auto& other) { return other.second.steps > 0; };
  return static_cast<uint32_t>(std::count_if(others_.begin(), others_.end(), trained));
}

uint64_t TrainingThread::steps_not_followed() const {
  uint64_t steps = 0;
  for (const auto& [thread, other] : others_) steps += other.steps;
  return steps;
}

}  // namespace stepscope
