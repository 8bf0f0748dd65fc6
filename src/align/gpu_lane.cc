#include "align/gpu_lane.h"

#include <algorithm>
#include <map>

#include "align/step_accumulator.h"

namespace stepscope {

namespace {

constexpr uint64_t kCountedWaits = uint64_t{1} << 63;  // apart from the sequence numbers of collectives
constexpr size_t kMaxIssues = 256;

Category category_of(Kind kind) {
  switch (kind) {
    case Kind::kForward: return Category::kForward;
    case Kind::kBackward: return Category::kBackward;
    case Kind::kOptimizer:
    case Kind::kScalerStep: return Category::kOptimizer;
    case Kind::kH2d: return Category::kH2d;
    case Kind::kUserPhase: return Category::kUserCode;
    default: return Category::kUnattributed;
  }
}

}  // namespace

void GpuLane::mark(int64_t host_ns, uint16_t kind, uint64_t id, int64_t gpu_ns, int64_t mapped_ns, uint16_t flags) {
  seen_ = true;
  if (gpu_ns == 0 && mapped_ns == 0 && !(flags & kGpuCaptured)) return;
  // Events of one stream resolve in order; several threads may have marked, so keep host order.
  Mark m{host_ns, gpu_ns, mapped_ns, kind, flags, id};
  auto at = marks_.end();
  while (at != marks_.begin() && std::prev(at)->host_ns > host_ns) --at;
  marks_.insert(at, m);
  if (marks_.size() > kMaxMarks) marks_.pop_front();
}

void GpuLane::host_span(int64_t begin_ns, int64_t end_ns, Category category, bool stall) {
  if (!seen_) return;
  if (!spans_.empty() && spans_.back().category == category && spans_.back().stall == stall &&
      spans_.back().end_ns == begin_ns)
    spans_.back().end_ns = end_ns;
  else
    spans_.push_back({begin_ns, end_ns, category, stall});
  if (spans_.size() > kMaxSpans) spans_.pop_front();
}

void GpuLane::backward_meets(int64_t end_ns, uint64_t group, uint64_t sequence) {
  if (!seen_) return;
  sync_points_.push_back({end_ns, group, sequence});
  if (sync_points_.size() > kMaxSpans) sync_points_.pop_front();
}

void GpuLane::host_waits(int64_t begin_ns, uint64_t group, uint64_t sequence, StallSyncPoint sync_point) {
  if (!seen_) return;
  waits_.push_back({begin_ns, INT64_MAX, group, sequence, sync_point});
  if (waits_.size() > kMaxSpans) waits_.pop_front();
}

void GpuLane::host_waited(int64_t end_ns) {
  const auto open =
      std::find_if(waits_.rbegin(), waits_.rend(), [](const HostWait& wait) { return wait.end_ns == INT64_MAX; });
  if (open != waits_.rend()) open->end_ns = end_ns;
}

void GpuLane::issued(int64_t host_ns, uint8_t op, uint64_t group) {
  if (op != static_cast<uint8_t>(CollectiveOp::kAllGather) && op != static_cast<uint8_t>(CollectiveOp::kReduceScatter))
    return;
  const auto newest =
      std::find_if(issues_.rbegin(), issues_.rend(), [op](const Issue& issue) { return issue.op == op; });
  if (newest != issues_.rend() && newest->group == group) return;
  issues_.push_back({host_ns, op, group});
  if (issues_.size() > kMaxIssues) issues_.pop_front();
}

uint64_t GpuLane::group_of(GpuWaitPoint point, int64_t host_ns) const {
  if (point == GpuWaitPoint::kWork) return 0;
  const auto op = static_cast<uint8_t>(point == GpuWaitPoint::kFsdpUnshard ? CollectiveOp::kAllGather
                                                                           : CollectiveOp::kReduceScatter);
  const auto newest = std::find_if(issues_.rbegin(), issues_.rend(),
                                   [&](const Issue& issue) { return issue.op == op && issue.host_ns <= host_ns; });
  return newest == issues_.rend() ? 0 : newest->group;
}

// Which collective the stream is made to wait for. Where the host does not wait itself, the so-many-th wait of this
// point for this group: its members pass them in the same order. Without a group it is a guess.
void GpuLane::name_wait(OpenSpan& span, const Mark& mark, WaitCounts& counts) const {
  const auto host =
      std::find_if(waits_.rbegin(), waits_.rend(), [&](const HostWait& wait) { return wait.begin_ns <= mark.host_ns; });
  if (host != waits_.rend() && host->end_ns >= mark.host_ns) {
    span.last_group = host->group, span.last_sequence = host->sequence, span.sync_point = host->sync_point;
    return;
  }
  const uint64_t group = group_of(static_cast<GpuWaitPoint>(mark.id), mark.host_ns);
  span.last_group = group ? group : mark.id;
  span.last_sequence = kCountedWaits | mark.id << 32 | counts[{group, mark.id}]++;
  span.sync_point.counted = group == 0;
}

bool GpuLane::wants(int64_t end_ns, int64_t now_ns) const {
  if (!seen_ || now_ns - end_ns > kPatienceNs) return false;
  // Events are resolved in order: one that was marked after the step's end shows that all of its own are here.
  return marks_.empty() || marks_.back().host_ns <= end_ns;
}

// Between phases the stream is idle or does unnamed work: the host's activity names it.
void GpuLane::charge_gap(GpuStep& out, const Mark& from, const Mark& to) const {
  const int64_t gap_ns = to.gpu_ns - from.gpu_ns;
  if (gap_ns <= 0) return;
  int64_t named_ns = 0;
  for (const HostSpan& span : spans_) {
    const int64_t ns = std::min(span.end_ns, to.mapped_ns) - std::max(span.begin_ns, from.mapped_ns);
    if (ns <= 0) continue;
    const int64_t part = std::min(ns, gap_ns - named_ns);
    if (part <= 0) break;
    // Phases of compute that the host was in while the stream was between them: the GPU waited for launches.
    out.own[index(span.category)] += part;
    out.segments.back()[index(span.category)] += part;
    named_ns += part;
  }
  out.own[index(Category::kUnattributed)] += gap_ns - named_ns;
  out.segments.back()[index(Category::kUnattributed)] += gap_ns - named_ns;
}

namespace {

// Part of the stall that lies behind the last collective which ran during it; 0 where none did.
int64_t after_last_op_ns(const std::vector<DeviceOp>& ops, const Stall& stall) {
  const int64_t stall_end = stall.begin_ns + stall.duration_ns;
  int64_t last = INT64_MIN;
  for (const DeviceOp& op : ops)
    if (op.begin_ns < stall_end && op.end_ns > stall.begin_ns) last = std::max(last, std::min(op.end_ns, stall_end));
  return last == INT64_MIN ? 0 : stall_end - last;
}

}  // namespace

void StallEnds::apply(const std::vector<DeviceOp>& ops, GpuStep& step) {
  if (!ops.empty()) {
    after_ns_.clear();
    for (const Stall& stall : step.stalls) after_ns_.push_back(after_last_op_ns(ops, stall));
  }
  if (after_ns_.size() != step.stalls.size()) return;
  for (size_t j = 0; j < step.stalls.size(); ++j) {
    Stall& stall = step.stalls[j];
    const int64_t own_ns = std::min(after_ns_[j], stall.duration_ns);
    stall.duration_ns -= own_ns;
    step.own[index(stall.phase)] += own_ns;
    step.segments[j + 1][index(stall.phase)] += own_ns;
  }
}

std::optional<GpuStep> GpuLane::take(int64_t begin_ns, int64_t end_ns) {
  std::vector<Mark> in;
  while (!marks_.empty() && marks_.front().host_ns <= end_ns) {
    if (marks_.front().host_ns > begin_ns || !boundary_) in.push_back(marks_.front());
    marks_.pop_front();
  }
  const bool captured = std::any_of(in.begin(), in.end(), [](const Mark& m) { return m.flags & kGpuCaptured; });
  std::erase_if(in, [](const Mark& m) { return m.flags & kGpuCaptured; });
  std::optional<GpuStep> out;
  if (!in.empty() && boundary_ && in.back().gpu_ns > boundary_->gpu_ns) {
    out.emplace();
    out->segments.emplace_back();
    out->begin_ns = boundary_->mapped_ns;
    out->wall_ns = in.back().gpu_ns - boundary_->gpu_ns;
    out->captured = captured;
    LedgerNs ended_ns{}, starved_ns{};  // per category: time in its phases, and in those that left the stream empty
    Mark before = *boundary_;
    WaitCounts waits;
    for (const Mark& m : in) {
      const int64_t ns = m.gpu_ns - before.gpu_ns;
      const Now now = stack_.now(Category::kUnattributed, true);
      if (ns > 0) {
        if (now.stall) {
          Stall stall{0, 0, before.mapped_ns, ns, now.phase};
          if (const OpenSpan* wait = stack_.innermost(Kind::kWait)) {
            stall.group = wait->last_group, stall.sequence = wait->last_sequence, stall.sync_point = wait->sync_point;
          } else {
            for (const SyncPoint& sync_point : sync_points_)
              if (sync_point.end_ns >= m.host_ns) {
                stall.group = sync_point.group, stall.sequence = sync_point.sequence;
                break;
              }
          }
          out->stalls.push_back(stall);
          out->segments.emplace_back();
        } else if (now.category == Category::kUnattributed) {
          charge_gap(*out, before, m);
        } else {
          out->own[index(now.category)] += ns;
          out->segments.back()[index(now.category)] += ns;
          out->launching[index(now.category)] += std::clamp<int64_t>(m.host_ns - before.mapped_ns, 0, ns);
          // The GPU reached the phase's end right after the host did: it had nothing left to do but wait for launches.
          ended_ns[index(now.category)] += ns;
          if (m.flags & kGpuHostBound) starved_ns[index(now.category)] += ns;
        }
      }
      const Kind kind = kind_of(m.kind);
      if (kind == Kind::kBackwardOwn) {
        if (OpenSpan* backward = stack_.innermost(Kind::kBackward)) {
          // Without a collective there is nobody to wait for.
          backward->own_ended = std::any_of(sync_points_.begin(), sync_points_.end(), [&](const SyncPoint& x) {
            return x.end_ns >= m.host_ns && x.end_ns <= end_ns;
          });
        }
      } else if (edge_of(m.kind) == Edge::kBegin && kind != Kind::kStep) {
        OpenSpan span;
        if (kind == Kind::kWait) name_wait(span, m, waits);
        span.kind = kind, span.id = m.id, span.category = category_of(kind), span.begin_ns = m.gpu_ns;
        stack_.push(span);
      } else if (edge_of(m.kind) == Edge::kEnd) {
        stack_.pop(kind, m.id, nullptr);
      }
      if (m.gpu_ns >= before.gpu_ns) before = m;
    }
    for (size_t c = 0; c < kCategoryCount; ++c)
      if (starved_ns[c] > 0 && 2 * starved_ns[c] > ended_ns[c]) out->host_bound |= 1u << c;
  } else {
    stack_.clear();
  }
  if (!in.empty()) boundary_ = in.back();
  while (!sync_points_.empty() && sync_points_.front().end_ns <= end_ns) sync_points_.pop_front();
  while (!waits_.empty() && waits_.front().end_ns <= end_ns) waits_.pop_front();
  while (!spans_.empty() && boundary_ && spans_.front().end_ns < boundary_->mapped_ns - 1'000'000) spans_.pop_front();
  return out;
}

}  // namespace stepscope
