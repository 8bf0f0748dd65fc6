// Frames of other nodes become RemoteRanks of the pipeline. A frame that comes twice counts once; what is missing
// between two is counted. A node's clock is mapped by the frame that was on its way for the shortest time. Bounded;
// one thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "agent/pipeline.h"
#include "agent/remote_rank.h"

namespace stepscope {

struct InboxReply {
  int status = 200;  // 400 no frame, 409 of another version
  std::string body;  // of 200: for NodeOutbox::answered; else one line for people
};

class NodeInbox {
 public:
  // The pipeline outlives it.
  explicit NodeInbox(Pipeline& pipeline) : pipeline_(pipeline) {}

  InboxReply take(std::string_view frame, uint64_t now_ns);
  size_t nodes() const { return nodes_.size(); }
  uint64_t lost_frames() const { return lost_; }

 private:
  struct Process {
    Pipeline::TailId id = 0;
    RemoteRank* rank = nullptr;  // while the pipeline has it
  };
  struct Node {
    uint64_t next = 0;
    int64_t offset_ns = 0;
    std::map<uint64_t, Process> processes;
  };
  static constexpr size_t kMaxNodes = 4096, kMaxProcesses = 4096;

  void take(Node& node, RankNews news, uint64_t now_ns);

  Pipeline& pipeline_;
  std::map<std::string, Node> nodes_;  // by nonce
  uint64_t lost_ = 0;
};

}  // namespace stepscope
