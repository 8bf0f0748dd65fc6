// What the ranks do together: collectives, messages, waits for them.
#include "align/event_rows.h"

namespace stepscope {

namespace {

constexpr size_t kMaxCommunicators = 4096;

// The other rank of a message, as told in the payload of a collective; -1 = not told.
int32_t peer_of(uint64_t detail) {
  constexpr uint64_t kUnknownPeer = 0xffff;
  const uint64_t peer = detail >> 16 & 0xffffffff;
  return peer == kUnknownPeer ? -1 : static_cast<int32_t>(peer);
}

// Which operation a wait is for. A rank that was not told which counts its waits.
StallSyncPoint sync_point_of(const Event& wait) {
  const auto op = static_cast<CollectiveOp>(wait.d & 0xff);
  StallSyncPoint sync_point;
  sync_point.counted = op == CollectiveOp::kUnknown;
  if (!(wait.flags & kCollectiveP2p)) return sync_point;
  sync_point.peer = peer_of(wait.d);
  sync_point.sends = op == CollectiveOp::kSend;
  sync_point.counted = sync_point.peer < 0;
  return sync_point;
}

// A collective was issued, as told by a process-group hook or by NCCL itself: both have the same payload.
void issue(OpenRank& rank, const Event& e, int64_t t, bool p2p) {
  CollectiveIssue issue;
  issue.group = e.a;
  issue.sequence = e.b;
  issue.bytes = e.c;
  issue.op = static_cast<uint8_t>(e.d & 0xff);
  issue.peer = p2p ? peer_of(e.d) : -1;
  issue.p2p = p2p;
  issue.time_ns = t;
  if (!p2p) rank.device.lane().issued(t, issue.op, issue.group);
  if (OpenSpan* backward = rank.stack.innermost(Kind::kBackward)) {
    issue.since_backward_ns = t - backward->begin_ns;
    if (!p2p) {
      ++backward->collectives;
      backward->last_group = issue.group;
      backward->last_sequence = issue.sequence;
    }
  }
  if (rank.started) rank.parts.open().add_collective(issue);
}

}  // namespace

bool wait_begins(OpenRank& rank, const Event& e, int64_t, OpenSpan& span) {
  rank.parts.end_stall();
  span.sync_point = sync_point_of(e);
  rank.device.lane().host_waits(span.begin_ns, e.a, e.b, span.sync_point);
  return true;
}

void wait_ends(OpenRank& rank, const Event&, int64_t t, const OpenSpan* span) {
  if (span && !rank.started && !span->sync_point.counted && t - span->begin_ns >= StartupMeeting::kLongWaitNs)
    rank.met({span->id, span->sequence, true, span->begin_ns, t});
  rank.parts.end_stall();
  rank.device.lane().host_waited(t);
}

void tell_collective(OpenRank& rank, const Event& e, int64_t t) {
  rank.group_hooks = rank.sees_issues = true;
  issue(rank, e, t, e.flags & kCollectiveP2p);
}

void tell_collective_done(OpenRank& rank, const Event& e, int64_t t) {
  rank.parts.complete(e.a, e.b, static_cast<uint8_t>(e.d & 0xff), t);
}

void tell_nccl_op(OpenRank& rank, const Event& e, int64_t t) {
  rank.device.ops().announced(e);
  rank.sees_issues = true;
  if (!rank.group_hooks && !(e.flags & kNcclP2p)) issue(rank, e, t, false);
}

void tell_nccl_time(OpenRank& rank, const Event& e, int64_t) { rank.device.ops().timed(e); }

void tell_communicator(OpenRank& rank, const Event& e, int64_t) {
  if (edge_of(e.kind) == Edge::kBegin && rank.communicators.size() < kMaxCommunicators) rank.communicators[e.a] = e.c;
}

}  // namespace stepscope
