// Samples host, process trees and devices of the run's ranks from outside, and says at the end what that means: the
// System and Process sections, their findings, and the per-rank figures. Owned by the agent; one thread; never blocks
// (sampler/sampler.h). A run in which no rank appeared is not sampled at all.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "agent/node_sight.h"
#include "agent/pipeline.h"
#include "analyze/host_load.h"
#include "sampler/sampler.h"

namespace stepscope {

class HostWatch {
 public:
  HostWatch(double interval_s, std::map<std::string, double> thresholds);

  // The job has ranks on this host that another agent follows.
  void set_more_ranks(bool more) { more_ranks_ = more; }
  // Follows the ranks of the newest attempt and takes what samples are due.
  void sample(const Pipeline& pipeline, uint64_t now_ns);

  // Tells the engine how much room the ranks have on their devices, who else is there, and what the host's cores are
  // asked for; tell_news() at most every few seconds.
  void tell_news(Engine& engine, uint64_t now_ns);
  void tell_all(Engine& engine);
  // For the aggregator of a job on several nodes, as of judge().
  HostSight sight() const;
  // What the engine was told last of the host's cores; nothing before.
  const std::optional<HostLoad>& load() const { return load_; }

  // Judges what was sampled: findings and sections go to the engine. Once, when the run is over.
  void judge(Engine& engine);
  // What was sampled so far; and into the snapshot of a run that goes on, worked out for this one look: the System and
  // Process sections, per-rank figures, and how much memory is in use now (process rss_bytes, system
  // memory_used_bytes). The engine is told nothing.
  HostFacts facts_so_far() const;
  void fill_so_far(const HostFacts& facts, Snapshot& snapshot) const;
  // Per-rank figures, system and process values and what could not be measured.
  void fill(RunContext& context) const;

  const HostFacts& facts() const { return facts_; }  // as of judge()

 private:
  struct Followed {
    int pid = 0;
    bool alive = false;
  };

  void tell(const HostFacts& facts, Engine& engine);

  Sampler sampler_;
  std::map<std::string, double> thresholds_;
  std::map<int, Followed> followed_;  // by rank
  HostFacts facts_;
  std::optional<HostLoad> load_;
  uint64_t news_due_ns_ = 0;
  bool more_ranks_ = false;
  std::vector<Finding> findings_;  // as of judge()
  std::map<std::string, std::optional<double>> system_, process_;
};

}  // namespace stepscope
