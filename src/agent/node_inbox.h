// The aggregator's side: frames of all nodes come in and become RemoteRanks of the pipeline. A frame may come twice, or
// late, or never: each is taken once, what is missing is counted. How far a node's clock is apart is told by the frames
// themselves: the aggregator's is ahead by no more than a frame's arrival less its sending, and by no less than an
// answer's sending less its arrival.
//
// Knows no socket. One thread, the agent's; never waits. Bounded: kMostNodes nodes, and what RemoteRank bounds.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "agent/node_frame.h"
#include "agent/pipeline.h"
#include "diagnose/run_context.h"

namespace stepscope {

class NodeInbox {
 public:
  static constexpr size_t kMostNodes = 16384, kMostMissing = 256;
  static constexpr uint64_t kSilentNs = 5'000'000'000;    // a node that was not heard for so long is missing
  static constexpr uint64_t kStandingNs = 3'000'000'000;  // what was told of a standstill holds for so long

  enum class Outcome : uint8_t { kTaken, kNoFrame, kOtherVersion, kOtherRun, kTooMany };
  struct Answer {
    Outcome outcome = Outcome::kTaken;
    std::string body;  // kTaken: bytes for the node; else one line for people
  };
  struct NodeState {
    std::string hostname;
    uint64_t node = 0;
    uint64_t heard_ns = 0;
    uint64_t frames = 0, bytes = 0, duplicates = 0;
    uint64_t missing = 0;                 // frames that never came, so far
    uint64_t before = 0;                  // frames that went to an aggregator before this one
    uint64_t dropped_frames = 0;          // on the node, as it says
    int64_t ahead_ns = 0, unsure_ns = 0;  // this clock against the node's
    bool over = false;                    // it said that the run is over there
  };

  // `run`: "" = takes frames of any job.
  NodeInbox(std::string run, Pipeline& pipeline);

  Answer take(std::string_view frame, uint64_t now_ns);

  // Where ranks of other nodes stand, of those that were told of lately: as their nodes saw it, older by now.
  JobStanding standing(uint64_t now_ns) const;
  // Nodes that are heard and whose run is not over: more will come.
  bool more_to_come(uint64_t now_ns) const;
  // What was found about the hosts and devices of other nodes. Once, when the run is over here.
  void judge(Engine& engine) const;

  size_t nodes() const { return nodes_.size(); }
  bool hears_from(const std::string& hostname) const;
  std::vector<NodeState> states() const;
  // Nodes, what is late or missing, what was lost on the way, into what a snapshot says.
  void fill(RunContext& context, uint64_t now_ns) const;

 private:
  struct Node {
    NodeState state;
    uint64_t taken = 0;           // the highest sequence
    std::set<uint64_t> missing;   // below it, and may still come
    std::deque<int64_t> most_ns;  // how far our clock is ahead at most, by the newest frames
    bool shifted = false;
    std::map<uint64_t, TailId> processes;
    std::vector<std::string> notes;
    HostSight host;
    std::optional<JobStanding> standing;
  };

  void set_clock(Node& node, const NodeFrame& frame, uint64_t now_ns);
  void take_process(Node& node, ProcessNews news, bool newest, uint64_t now_ns, bool& tell_all);
  void take_sight(Node& node, NodeFrame& frame);
  std::string silence_of(const Node& node, uint64_t now_ns) const;
  std::string losses_of(const Node& node) const;

  std::string run_;
  Pipeline& pipeline_;
  uint64_t aggregator_ = 0;
  std::map<uint64_t, Node> nodes_;
};

}  // namespace stepscope
