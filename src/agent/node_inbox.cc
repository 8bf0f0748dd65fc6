#include "agent/node_inbox.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "store/varint.h"

namespace stepscope {

InboxReply NodeInbox::take(std::string_view bytes, uint64_t now_ns) {
  auto frame = decode_frame(bytes);
  if (!frame) {
    const auto version = frame_version(bytes);
    return {version && *version != NodeFrame::kVersion ? 409 : 400, frame.error().message};
  }
  if (!nodes_.contains(frame->nonce) && nodes_.size() >= kMaxNodes) return {400, "too many nodes"};
  const auto offset_ns = static_cast<int64_t>(now_ns - static_cast<uint64_t>(frame->now_ns));
  const auto [found, fresh] = nodes_.try_emplace(frame->nonce);
  Node& node = found->second;
  node.offset_ns = fresh ? offset_ns : std::min(node.offset_ns, offset_ns);
  const bool missed = frame->sequence > node.next;
  if (frame->sequence >= node.next) {
    if (!fresh) lost_ += frame->sequence - node.next;
    node.next = frame->sequence + 1;
    for (RankNews& news : frame->ranks) take(node, std::move(news), now_ns);
  }
  InboxReply reply;
  store::put_varint(reply.body, missed ? 1 : 0);
  return reply;
}

void NodeInbox::take(Node& node, RankNews news, uint64_t now_ns) {
  auto found = node.processes.find(news.process);
  if (found == node.processes.end()) {
    if (!news.identity || node.processes.size() >= kMaxProcesses) return;
    auto rank = std::make_unique<RemoteRank>();
    RemoteRank* const known = rank.get();
    found = node.processes.emplace(news.process, Process{pipeline_.add(std::move(rank)), known}).first;
  }
  const Process& process = found->second;
  if (!pipeline_.has(process.id)) return;  // put away: of an attempt that is over
  const bool ended = news.ended;
  process.rank->take(std::move(news), node.offset_ns);
  if (ended) pipeline_.end_tail(process.id, now_ns, std::nullopt);
}

}  // namespace stepscope
