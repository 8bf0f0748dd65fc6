// This agent's part among the nodes of the job, as the agent's loop sees it: who aggregates (NodeTraffic), what this
// node tells (NodeOutbox), what the others told (NodeInbox). A job whose ranks are all here has nobody to meet, and
// nothing here ever happens.
//
//   turn(now) after each pump of the pipeline ─▶ close(now) after its finish() ─▶ turn() while delivering()
//
// Steps are gathered from the beginning, before it is known who aggregates, so that none are missing over there; they
// are given up when nobody was found for kFoundNs. One thread, the agent's; never waits. Failure: a line for the user
// and the node's own verdict; the training goes on.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/node_inbox.h"
#include "agent/node_outbox.h"
#include "agent/node_traffic.h"
#include "agent/pipeline.h"
#include "diagnose/run_context.h"

namespace stepscope {

class JobNodes {
 public:
  static constexpr uint64_t kFoundNs = 90'000'000'000;  // an aggregator that is not found by then will not be

  // The pipeline must outlive it and have no process yet. `watch`: wakes the agent when the descriptor is readable.
  JobNodes(TrafficOptions options, Pipeline& pipeline, NodeTraffic::Watch watch);

  void turn(uint64_t now_ns);
  // What only this node sees (node_sight.h). `standing`: nothing = the
  // ranks here go on.
  void set_load(const HostLoad& load);
  void set_host(HostSight host);
  void set_standing(std::optional<JobStanding> standing);
  // Ranks here whose lines of code the aggregator would like to have.
  const std::set<TailId>& lines_wanted() const;
  // Where ranks of other nodes stand; empty where nobody is told of.
  JobStanding standing_elsewhere(uint64_t now_ns) const;
  // Findings of other nodes about their hosts go to the engine. Once, when the run is over.
  void judge(Engine& engine) const;

  // The run is over here: what is left is made into frames.
  void close(uint64_t now_ns);
  // Something of this node is not taken in over there, and may be yet.
  bool delivering() const;
  // More of other nodes is on its way: their ranks' ends, what they find about their hosts.
  bool more_to_come(uint64_t now_ns) const;

  // Lines for the user since the last call.
  std::vector<std::string> take_lines() { return traffic_.take_lines(); }
  // Another agent follows ranks of the job on this host, as far as it is known here.
  bool more_ranks_on_this_host() const;
  // "" unless all that was seen here is taken in over there: then where the verdict of the whole job is.
  std::string verdict_elsewhere() const;
  // Where the verdict of the whole job is, nodes that are late or missing, what was lost on the way.
  void fill(RunContext& context, uint64_t now_ns) const;

 private:
  struct Here {
    int ranks = 0, world = 0;
    bool rank_zero = false;
  };
  Here look_here() const;
  void choose_boxes(bool elsewhere, uint64_t now_ns);
  FrameReply take(std::string_view frame, uint64_t now_ns);
  FrameWork work(uint64_t now_ns);

  Pipeline& pipeline_;
  const std::string hostname_;
  const bool off_;
  NodeTraffic traffic_;
  std::unique_ptr<NodeOutbox> outbox_;  // unless this agent aggregates, or nobody does
  std::unique_ptr<NodeInbox> inbox_;    // since this agent aggregates
  uint64_t elsewhere_ns_ = 0;           // since when ranks are known to be elsewhere
  bool closed_ = false;
};

}  // namespace stepscope
