// The processes of this node that are ranks of the run or may become such: finds their black boxes, hears of their ends
// and tells the pipeline of both; keeps what a successor of this agent needs to go on counting, and the rings of those
// that were lost.
//
// Per turn of the agent's loop: look() ─▶ pump of the pipeline ─▶ tidy(); on_death() when a process's descriptor is
// readable. One thread, the agent's; never waits. What it refers to must outlive it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "agent/agent_config.h"
#include "agent/epoll_set.h"
#include "agent/pid_watch.h"
#include "agent/pipeline.h"
#include "agent/ring_watch.h"
#include "agent/run_folder.h"
#include "agent/run_store.h"
#include "agent/start_watch.h"
#include "agent/step_marks.h"
#include "base/log.h"
#include "sampler/oom_counters.h"

namespace stepscope {

class RankProcesses {
 public:
  struct Surroundings {
    const AgentConfig& config;
    Pipeline& pipeline;
    RunStore& store;
    RunFolder& folder;
    Log& log;
    EpollSet& epoll;  // descriptors of processes are in it by their tail's id, what tells of new ones by `look_key`
    uint64_t look_key;
    // How a process ended, where the launcher said so before the kernel did.
    std::function<std::optional<int>(int pid)> told_status;
  };

  explicit RankProcesses(Surroundings around);

  // Who has come since: new black boxes, new starts, starts that failed.
  void look(uint64_t now_ns);
  // The process behind this tail is gone; nothing happens where that is known.
  void on_death(Pipeline::TailId id);
  void poll_deaths_without_pidfd();
  // After the pump: marks are kept, processes that turned out to be no ranks and rings nobody reads are let go.
  void tidy(uint64_t now_ns);
  void count_oom_kills(uint64_t now_ns) { oom_kills_.look(now_ns); }

  bool all_gone() const { return watches_.empty(); }
  // Every rank has run its exit handlers; its process may take a while to be gone.
  bool said_goodbye() const;
  void note_survivors();
  void kill_ranks();
  // Copies of the rings into the run's folder, those of who died first before the others.
  void keep_rings();

  const StartWatch& starts() const { return starts_; }

 private:
  void look_for_rings(uint64_t now_ns);
  void look_for_starts(uint64_t now_ns);
  void follow(RankTail tail);
  void keep_marks();
  void forget_non_ranks(uint64_t now_ns);
  void put_away_closed_rings();

  const AgentConfig& config_;
  Pipeline& pipeline_;
  RunStore& store_;
  RunFolder& folder_;
  Log& log_;
  EpollSet& epoll_;
  std::function<std::optional<int>(int pid)> told_status_;
  RingWatch rings_;
  StartWatch starts_;
  StepMarks marks_;
  OomCounters oom_kills_;
  std::map<Pipeline::TailId, PidWatch> watches_;
};

}  // namespace stepscope
