// Which part this agent takes among the nodes of a job, and its frames on their way. Finds out by what is configured
// (--aggregator) or by the notes that the rank processes leave (aggregator_notes.h); a job on one node leaves none, and
// nothing here ever happens.
//
//   alone       no other node is known of
//   aggregates  global rank 0 is here: the door is open, frames of other nodes are handed to `take`
//   sends       frames that `next` makes go to the aggregator; answers are handed to `answered`
//
// The newest note counts: after an elastic restart rank 0 may be elsewhere. One thread; nothing waits. Failure: one
// line for the user, the training goes on, and the node keeps its own verdict.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/aggregator_notes.h"
#include "agent/node_link.h"

namespace stepscope {

struct TrafficOptions {
  std::string shm_dir;        // "" = no notes
  std::string run_dir, node;  // what other nodes are told: where the job's verdict will be
  std::string aggregator;     // HOST:PORT, "" = found by notes, "off" = every node for itself
  std::string secret;         // of a file that all nodes have; "" = a random one, told by the job's store
  OpenNodeDoor open_door;     // null: cannot aggregate
};

struct FrameWork {
  std::function<FrameReply(std::string_view frame)> take;
  std::function<std::optional<std::string>()> next;  // nothing: no frame is due
  std::function<void(const FrameReply&)> answered;   // 200, or 400 and 413: that frame will never be taken
};

class NodeTraffic {
 public:
  enum class Role : uint8_t { kAlone, kAggregates, kSends };
  using Watch =
      std::function<void(int fd)>;  // wakes the agent when readable; an fd that is closed is forgotten by itself

  // A note as it lay in the folder; file 0 = none did.
  struct NoteSeen {
    int64_t written_ns = 0;
    uint64_t file = 0;
    bool operator==(const NoteSeen&) const = default;
  };

  NodeTraffic(TrafficOptions options, Watch watch);

  // Looks for news about who aggregates. `rank_zero`: global rank 0 is among the ranks here.
  void look(bool rank_zero, uint64_t now_ns);
  // Moves what can be moved now.
  void turn(const FrameWork& work);

  Role role() const { return role_; }
  bool in_flight() const { return uplink_ && !uplink_->idle(); }  // a frame has not been answered yet
  bool can_deliver() const;                                       // sends, and is not refused for good
  // Lines for the user since the last call.
  std::vector<std::string> take_lines();
  // Of a node that sends: where the job's verdict is, or why it knows nothing of this node. "" otherwise.
  std::string verdict_note() const;
  // Of a node that sends: the aggregator's host name, "" where it is not told.
  const std::string& aggregator_host() const { return theirs_.node; }
  // Of a node that sends and was heard: the aggregator's node and run folder, "node0: /logs/run". "" otherwise.
  std::string verdict_place() const;

 private:
  void look_at_notes();
  void open_door(const std::string& listen, uint16_t port, const std::string& tell);
  void send_to(const AggregatorOffer& offer);

  TrafficOptions options_;
  Watch watch_;
  Role role_ = Role::kAlone;
  std::unique_ptr<NodeDoor> door_;
  std::unique_ptr<NodeUplink> uplink_;
  AggregatorOffer mine_, theirs_;
  bool was_up_ = false, refused_told_ = false, gave_up_ = false;
  uint64_t next_look_ns_ = 0;
  NoteSeen wish_, found_;  // as they were looked at last
  std::vector<std::string> lines_;
};

}  // namespace stepscope
