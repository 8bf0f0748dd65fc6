#include "agent/job_nodes.h"

#include <algorithm>
#include <utility>

#include "base/text_format.h"

namespace stepscope {
namespace {

int status_of(NodeInbox::Outcome outcome) {
  switch (outcome) {
    case NodeInbox::Outcome::kTaken: return 200;
    case NodeInbox::Outcome::kNoFrame: return 400;
    case NodeInbox::Outcome::kOtherVersion:
    case NodeInbox::Outcome::kOtherRun:
    case NodeInbox::Outcome::kTooMany: break;
  }
  return 409;
}

}  // namespace

JobNodes::JobNodes(TrafficOptions options, Pipeline& pipeline, NodeTraffic::Watch watch)
    : pipeline_(pipeline),
      hostname_(options.node),
      off_(options.aggregator == "off"),
      traffic_(std::move(options), std::move(watch)) {
  choose_boxes(false, 0);
}

JobNodes::Here JobNodes::look_here() const {
  Here here;
  for (const TailId id : pipeline_.tails()) {
    const RankTail* ring = pipeline_.ring(id);
    if (!ring || ring->ended() || ring->identity().rank < 0) continue;
    ++here.ranks;  // before it is known for a rank: all are here before one of them can be in the group
    if (!ring->is_rank()) continue;
    here.world = std::max(here.world, ring->identity().world_size);
    here.rank_zero = here.rank_zero || ring->identity().rank == 0;
  }
  return here;
}

void JobNodes::choose_boxes(bool elsewhere, uint64_t now_ns) {
  if (elsewhere && elsewhere_ns_ == 0) elsewhere_ns_ = now_ns;
  bool sends = false;
  switch (traffic_.role()) {
    case NodeTraffic::Role::kAggregates:
      if (!inbox_) inbox_ = std::make_unique<NodeInbox>("", pipeline_);
      break;
    case NodeTraffic::Role::kSends: sends = traffic_.can_deliver(); break;
    case NodeTraffic::Role::kAlone: sends = !off_ && (elsewhere_ns_ == 0 || now_ns - elsewhere_ns_ < kFoundNs); break;
  }
  if (!sends) outbox_.reset();
  if (sends && !outbox_) outbox_ = std::make_unique<NodeOutbox>(NodeOutbox::Options{.hostname = hostname_}, pipeline_);
}

FrameReply JobNodes::take(std::string_view frame, uint64_t now_ns) {
  if (!inbox_ || closed_) return {503, "not aggregating any more"};
  NodeInbox::Answer answer = inbox_->take(frame, now_ns);
  return {status_of(answer.outcome), std::move(answer.body)};
}

FrameWork JobNodes::work(uint64_t now_ns) {
  return {.take = [this, now_ns](std::string_view frame) { return take(frame, now_ns); },
          .next = [this, now_ns] { return outbox_ ? outbox_->next(now_ns) : std::nullopt; },
          .answered =
              [this, now_ns](const FrameReply& reply) {
                if (!outbox_) return;
                reply.status == 200 ? outbox_->answered(reply.body, now_ns) : outbox_->refused();
              }};
}

void JobNodes::turn(uint64_t now_ns) {
  if (!closed_) {
    const Here here = look_here();
    const bool elsewhere = here.world > here.ranks;
    if (elsewhere) traffic_.look(here.rank_zero, now_ns);
    choose_boxes(elsewhere, now_ns);
    if (outbox_) outbox_->look(now_ns);
  }
  traffic_.turn(work(now_ns));
}

void JobNodes::close(uint64_t now_ns) {
  closed_ = true;
  if (outbox_) outbox_->close(now_ns);
}

bool JobNodes::delivering() const {
  return outbox_ && traffic_.can_deliver() && (!outbox_->delivered() || traffic_.in_flight());
}

bool JobNodes::more_to_come(uint64_t now_ns) const {
  return traffic_.role() == NodeTraffic::Role::kAggregates && inbox_ && inbox_->more_to_come(now_ns);
}

void JobNodes::set_load(const HostLoad& load) {
  if (outbox_) outbox_->set_load(load);
}

void JobNodes::set_host(HostSight host) {
  if (outbox_ && !host.empty()) outbox_->set_host(std::move(host));
}

void JobNodes::set_standing(std::optional<JobStanding> standing) {
  if (outbox_) outbox_->set_standing(std::move(standing));
}

const std::set<TailId>& JobNodes::lines_wanted() const {
  static const std::set<TailId> kNone;
  return outbox_ ? outbox_->lines_wanted() : kNone;
}

JobStanding JobNodes::standing_elsewhere(uint64_t now_ns) const {
  return inbox_ ? inbox_->standing(now_ns) : JobStanding{};
}

void JobNodes::judge(Engine& engine) const {
  if (inbox_) inbox_->judge(engine);
}

bool JobNodes::more_ranks_on_this_host() const {
  return inbox_ ? inbox_->hears_from(hostname_) : traffic_.aggregator_host() == hostname_;
}

std::string JobNodes::verdict_elsewhere() const {
  const bool told = closed_ && outbox_ && outbox_->delivered() && !traffic_.in_flight() &&
                    outbox_->totals().answered > 0 && outbox_->totals().dropped_steps == 0;
  return told ? traffic_.verdict_place() : "";
}

void JobNodes::fill(RunContext& context, uint64_t now_ns) const {
  if (const std::string note = traffic_.verdict_note(); !note.empty()) context.note(note);
  if (inbox_) inbox_->fill(context, now_ns);
  if (outbox_ && traffic_.role() == NodeTraffic::Role::kSends && outbox_->totals().dropped_steps > 0)
    context.note(formatted("{} steps of ranks here did not reach the aggregator", outbox_->totals().dropped_steps));
}

}  // namespace stepscope
