#include "align/whereabouts.h"

#include <algorithm>
#include <utility>

#include "blackbox/event_kind.h"

namespace stepscope {
namespace {

// What a thread that is stuck, or a process that is being ended, may still write.
bool is_progress(Kind kind) {
  switch (kind) {
    case Kind::kProcess:
    case Kind::kGc:
    case Kind::kUsage:
    case Kind::kException:
    case Kind::kWorkerFetch:
    case Kind::kMemory:
    case Kind::kMemoryCounters:
    case Kind::kMemoryPeak:
    case Kind::kGpuMark:
    case Kind::kGpuStatus:
    case Kind::kNcclTime:
    case Kind::kTeardown: return false;
    default: return true;
  }
}

bool of_training_thread(Kind kind) {
  return kind == Kind::kOptimizer || kind == Kind::kBackward || kind == Kind::kForward || kind == Kind::kStep ||
         kind == Kind::kFetch || kind == Kind::kInitGroup;
}

// Of a rank whose torch tells of no collective (before 2.14): the group of what DDP waits for at the end of a backward,
// counted here as the hooks count waits. All ranks of the job, as far as is known.
constexpr uint64_t kBackwardTails = ~uint64_t{0};

int32_t peer_of(const Event& event) {
  return event.flags & kCollectiveP2p ? static_cast<int32_t>(event.d >> 16 & 0xffffffff) : -1;
}

uint64_t what_of(uint64_t group, const IssuedOp& op) {
  uint64_t what = group * 0x9e3779b97f4a7c15ull + op.op * 2 + op.in_backward + 1;
  if (must_agree_in_size(op.op)) what ^= (op.bytes + 1) * 0xc2b2ae3d27d4eb4full;
  return what | 1;
}

}  // namespace

// Pieces of others may be uneven.
bool must_agree_in_size(uint8_t op) { return op == static_cast<uint8_t>(CollectiveOp::kAllReduce); }

const IssuedOp* PlaceInGroup::find(uint64_t sequence) const {
  const auto found =
      std::find_if(newest.rbegin(), newest.rend(), [&](const IssuedOp& op) { return op.sequence == sequence; });
  return found == newest.rend() ? nullptr : &*found;
}

void PlaceInGroup::add(const IssuedOp& op) {
  issued = op.sequence + 1;
  newest.push_back(op);
  if (newest.size() > Whereabouts::kKept) newest.pop_front();
}

PlaceInGroup* Whereabouts::place_in(uint64_t group) {
  if (groups_.size() >= kMostGroups && !groups_.contains(group)) return nullptr;
  return &groups_[group];
}

void Whereabouts::add(uint64_t group, IssuedOp op) {
  op.step_ends = step_ends_;
  op.what = what_of(group, op);
  op.after = newest_;
  if (newest_ != 0) turns_.add(newest_, op.what, op.time_ns);
  newest_ = op.what;
  if (PlaceInGroup* place = place_in(group)) place->add(op);
}

// One of which nobody tells: what it is, is guessed by where.
void Whereabouts::count_issue(uint64_t group, uint64_t sequence, int64_t time_ns) {
  const bool in_backward = backwards_ > 0;
  const auto op = static_cast<uint8_t>(in_backward ? CollectiveOp::kAllReduce : CollectiveOp::kUnknown);
  add(group, {.sequence = sequence, .op = op, .time_ns = time_ns, .in_backward = in_backward});
}

void Whereabouts::note_issue(const Event& event) {
  const auto time_ns = static_cast<int64_t>(event.time_ns);
  const auto op = static_cast<uint8_t>(event.d & 0xff);
  const bool message = kind_of(event.kind) == Kind::kCollective && (event.flags & kCollectiveP2p);
  if (backwards_ > 0 && !message) in_backward_ = AwaitedOp{.group = event.a, .sequence = event.b, .since_ns = time_ns};
  if (message) {
    messages_ = true;
    return;
  }
  add(event.a, {.sequence = event.b, .bytes = event.c, .op = op, .time_ns = time_ns, .in_backward = backwards_ > 0});
}

// Where torch does not tell (before 2.14), NCCL does.
void Whereabouts::note_nccl(const Event& event) {
  const Kind kind = kind_of(event.kind);
  messages_ = messages_ || (kind == Kind::kNcclOp && (event.flags & kNcclP2p));
  if (hooks_) return;
  if (kind == Kind::kNcclOp && !(event.flags & kNcclP2p)) return note_issue(event);
  if (kind != Kind::kNcclComm) return;
  if (edge_of(event.kind) == Edge::kEnd)
    groups_.erase(event.a);
  else if (PlaceInGroup* place = place_in(event.a))
    place->size = event.c;
}

void Whereabouts::note_worker(const Event& event) {
  if (edge_of(event.kind) != Edge::kBegin)
    worker_fetches_.erase(event.thread);
  else if (worker_fetches_.size() < kMostWorkers || worker_fetches_.contains(event.thread))
    worker_fetches_[event.thread] = {event.a, event.b};
}

void Whereabouts::note_step_end(int64_t at_ns) {
  if (step_end_ns_ > 0) {
    walls_ns_.push_back(at_ns - step_end_ns_);
    if (walls_ns_.size() > kMostWalls) walls_ns_.pop_front();
  }
  step_end_ns_ = at_ns;
  ++step_ends_;
  in_step_ = false;
}

void Whereabouts::push(const Event& event, Category phase) {
  const Kind kind = kind_of(event.kind);
  const Edge edge = edge_of(event.kind);
  const auto time_ns = static_cast<int64_t>(event.time_ns);
  if (of_training_thread(kind)) thread_ = event.thread;
  device_.push(event);
  if (is_progress(kind)) {
    if (breaks_silence(event)) {
      int64_t& longest = silences_ns_[index(step_end_ns_ > 0 ? phase : Category::kStartup)];
      longest = std::max(longest, time_ns - progress_ns_);
    }
    progress_ns_ = std::max(progress_ns_, time_ns);
  }
  switch (kind) {
    case Kind::kCollective:
      if (!std::exchange(hooks_, true)) groups_.clear(), turns_ = {}, newest_ = 0;
      return note_issue(event);
    case Kind::kNcclOp:
    case Kind::kNcclComm: return note_nccl(event);
    case Kind::kWait:
      wait_.reset();
      if (edge == Edge::kBegin && !hooks_ && peer_of(event) < 0) count_issue(event.a, event.b, time_ns);
      if (edge == Edge::kBegin)
        wait_ = AwaitedOp{event.a, event.b, peer_of(event),
                          (event.d & 0xff) == static_cast<uint64_t>(CollectiveOp::kSend), time_ns};
      return;
    case Kind::kBackward:
      if (edge == Edge::kBegin) {
        in_step_ = true;
        ++backwards_;
      } else if (edge == Edge::kEnd) {
        backwards_ = std::max(0, backwards_ - 1);
      }
      own_ended_ = false;
      in_backward_.reset();
      return;
    case Kind::kBackwardOwn:
      own_ended_ = true;
      own_end_ns_ = time_ns;
      if (!in_backward_ && !hooks_ && backwards_ > 0) {
        const auto tails = groups_.find(kBackwardTails);
        const uint64_t sequence = tails == groups_.end() ? 0 : tails->second.issued;
        in_backward_ = AwaitedOp{.group = kBackwardTails, .sequence = sequence, .since_ns = time_ns};
        count_issue(kBackwardTails, sequence, time_ns);
      }
      return;
    case Kind::kForward:
      if (edge == Edge::kBegin && (event.flags & kForwardGrad)) in_step_ = true, data_ended_ = false;
      if (edge == Edge::kBegin) backwards_ = 0;  // one that an exception left
      return;
    case Kind::kFetch:
      data_seen_ = true;
      in_fetch_ = edge == Edge::kBegin ? std::optional(event.a) : std::nullopt;
      if (edge == Edge::kEnd && (event.flags & kFetchStop)) data_ended_ = true;
      return;
    case Kind::kWorkerFetch: return note_worker(event);
    case Kind::kOptimizer:
      if (edge == Edge::kEnd) note_step_end(time_ns);
      return;
    case Kind::kInitGroup:
      init_since_ns_ = edge == Edge::kBegin ? time_ns : 0;
      if (edge == Edge::kEnd) joined_ = true;
      return;
    default: return;
  }
}

// DDP waits inside backward, after all gradients are there: nothing but the end of own backward tells.
std::optional<AwaitedOp> Whereabouts::awaited() const {
  if (wait_) return wait_;
  if (backwards_ == 0 || !own_ended_ || !in_backward_) return std::nullopt;
  AwaitedOp op = *in_backward_;
  op.since_ns = std::max(op.since_ns, own_end_ns_);
  return op;
}

double Whereabouts::usual_step_s() const {
  if (walls_ns_.empty()) return 0;
  std::vector<int64_t> walls(walls_ns_.begin(), walls_ns_.end());
  std::nth_element(walls.begin(), walls.begin() + static_cast<long>(walls.size() / 2), walls.end());
  return static_cast<double>(walls[walls.size() / 2]) * 1e-9;
}

}  // namespace stepscope
