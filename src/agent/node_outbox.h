// What this node tells the aggregator: copies what is new of its rank processes, makes a frame of it about once a
// second, and keeps each until it is answered. Takes part only while ranks of the job are missing here, so that a job on
// one node pays nothing.
//
// One frame is under way at a time; the same frame is given again until it is answered or refused. Bounded: of kept
// frames the oldest beyond kMostKept go, and what went with them is counted and told. Knows no socket. One thread, the
// agent's; never waits. Cost: a copy per step, some microseconds per step for the frame.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "agent/node_frame.h"
#include "agent/pipeline.h"

namespace stepscope {

class NodeOutbox {
 public:
  static constexpr uint64_t kEveryNs = 1'000'000'000;
  static constexpr uint64_t kWholeLifeNs = 10'000'000'000;  // what changes all the time in a life is told so often
  static constexpr size_t kMostKept = size_t{8} << 20;      // bytes of frames

  struct Options {
    std::string run;       // the same on all nodes of the job
    std::string hostname;
    uint64_t node = 0;  // 0 = random
    size_t most_kept = kMostKept;
  };
  struct Totals {
    uint64_t frames = 0, bytes = 0, steps = 0;  // made
    uint64_t answered = 0;                      // frames
    uint64_t dropped_frames = 0, dropped_steps = 0;
  };

  // Listens to the pipeline, which must not outlive it without stop_listening().
  NodeOutbox(Options options, Pipeline& pipeline);
  ~NodeOutbox();

  // After each pump of the pipeline.
  void look(uint64_t now_ns);
  void set_load(const HostLoad& load) { load_ = load; }
  // A frame that is due: the one that waits for its answer, again, or the next. With `last` all that is left, at once,
  // and the word that the run is over here.
  std::optional<std::string> next(uint64_t now_ns, bool last = false);
  // The aggregator took the frame in and answered so; or it will never take it (400, 413).
  void answered(std::string_view answer, uint64_t now_ns);
  void refused();

  bool active() const { return active_; }              // ranks of the job are elsewhere
  bool delivered() const { return kept_.empty(); }     // all that was made is answered
  const Totals& totals() const { return totals_; }

 private:
  struct Process {
    uint64_t number = 0;
    blackbox::Identity identity;
    RankLife life;
    std::string ended_thread;
    ProcessNow now;
    std::map<uint64_t, ProcessGroup> groups;
    std::map<uint64_t, size_t> communicators;
    NameBook::Names facts;
    std::vector<RankStep> steps;  // for the next frame
    // What was told.
    std::string told_identity, told_life;
    uint64_t told_life_ns = 0;
    std::map<uint64_t, size_t> told_groups, told_communicators;
    size_t told_facts = 0;
    bool told_now = false, gone = false;
    ProcessNow now_told;
  };
  struct Kept {
    uint64_t sequence = 0;
    std::string bytes;
    std::map<uint64_t, uint64_t> steps;  // by process
  };

  void read(Process& process, RankSource& source);
  bool misses_ranks() const;
  ProcessNews news_of(Process& process, uint64_t now_ns);
  void make_frame(uint64_t now_ns, bool last);
  void drop_oldest();
  void tell_all_again();

  Options options_;
  Pipeline& pipeline_;
  std::map<TailId, Process> processes_;
  std::deque<Kept> kept_;
  Totals totals_;
  std::optional<HostLoad> load_;
  uint64_t next_number_ = 0, sequence_ = 0, aggregator_ = 0;
  uint64_t due_ns_ = 0;
  std::optional<int64_t> least_offset_ns_;
  std::vector<std::string> told_notes_;
  bool active_ = false, under_way_ = false, said_last_ = false;
};

}  // namespace stepscope
