// What this node tells the aggregator: copies what is new of its rank processes, makes a frame of it about once a
// second, and keeps each until it is answered. Takes part only while ranks of the job are missing here: of a job whose
// ranks are all here no step is copied.
//
// One frame is under way at a time; the same frame is given again until it is answered or refused. Bounded: of kept
// frames the oldest beyond kMostKept go, and what went with them is counted and told. Knows no socket. One thread, the
// agent's; never waits. Cost: a copy per step, some microseconds per step for the frame.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/node_frame.h"
#include "agent/pipeline.h"

namespace stepscope {

class NodeOutbox {
 public:
  static constexpr uint64_t kEveryNs = 1'000'000'000, kSoonestNs = 250'000'000;
  static constexpr uint64_t kWholeLifeNs = 10'000'000'000;  // what changes all the time in a life is told so often
  static constexpr size_t kMostKept = size_t{8} << 20;      // bytes of frames
  static constexpr size_t kMostCode = 512;                  // answers of a rank that wait for a frame

  struct Options {
    std::string run;  // the same on all nodes of the job
    std::string hostname;
    uint64_t node = 0;  // 0 = random
    size_t most_kept = kMostKept;
  };
  struct Totals {
    uint64_t frames = 0, bytes = 0, steps = 0;  // made
    uint64_t answered = 0;                      // frames
    uint64_t dropped_frames = 0, dropped_steps = 0;
  };

  // Listens to the pipeline, which must outlive it, from before the first process is added.
  NodeOutbox(Options options, Pipeline& pipeline);
  ~NodeOutbox();

  // After each pump of the pipeline. Makes frames as they are due, whether or not somebody takes them.
  void look(uint64_t now_ns);
  void set_load(const HostLoad& load) { load_ = load; }
  void set_host(HostSight host) { host_ = std::move(host); }
  // Where the ranks here stand, while the job seems to stand still; told at once when that is new.
  void set_standing(std::optional<JobStanding> standing);
  // The run is over here: what is left is made into frames at once. After the pipeline's finish().
  void close(uint64_t now_ns);
  // The oldest frame that is not answered.
  std::optional<std::string> next(uint64_t now_ns);
  // The aggregator took the frame in and answered so; or it will never take it (400, 413).
  void answered(std::string_view answer, uint64_t now_ns);
  void refused();

  // Whose lines of code the aggregator would like to have, as its newest answer says.
  const std::set<TailId>& lines_wanted() const { return lines_wanted_; }

  bool active() const { return active_; }           // ranks of the job are elsewhere
  bool delivered() const { return kept_.empty(); }  // all that was made is answered
  const Totals& totals() const { return totals_; }

 private:
  struct Process {
    uint64_t number = 0;
    blackbox::Identity identity;
    RankLife life;
    std::string ended_thread;
    ProcessNow now;
    std::map<uint64_t, ProcessGroup> groups;  // not told yet, as those below
    std::map<uint64_t, size_t> communicators;
    NameBook::Names facts;
    std::vector<CodeSample> code;
    std::vector<RankStep> steps;
    bool gone = false;  // followed no longer
    // What was told.
    bool told = false;
    ProcessNow now_told;
    std::string identity_told, life_told, whole_life_told;
    uint64_t whole_life_ns = 0;
    std::map<uint64_t, size_t> group_sizes, communicator_sizes;
    std::map<std::pair<uint16_t, uint64_t>, size_t> fact_sizes;
  };
  struct Kept {
    uint64_t sequence = 0;
    std::string bytes;
    std::map<uint64_t, uint64_t> steps;  // by process number
  };

  // How many of the job's ranks are on this node, as far as any is known.
  enum class Here { kNone, kSome, kAll };
  Here ranks_here() const;
  void stop();
  void read(TailId id, RankSource& source);
  bool tell(Process& process, ProcessNews& news, uint64_t now_ns, size_t& room);
  bool make_frame(uint64_t now_ns, bool last);
  void forget(size_t kept);
  void tell_all_again();

  Options options_;
  Pipeline& pipeline_;
  std::map<TailId, Process> processes_;
  std::deque<Kept> kept_;
  Totals totals_;
  std::optional<HostLoad> load_;
  std::optional<HostSight> host_;  // not told yet
  std::optional<JobStanding> standing_;
  std::set<TailId> lines_wanted_;
  std::deque<int64_t> offsets_ns_;  // how far the aggregator's clock was ahead, at least, by its newest answers
  size_t kept_bytes_ = 0;
  uint64_t next_number_ = 0, sequence_ = 0, aggregator_ = 0, due_ns_ = 0, made_ns_ = 0;
  bool active_ = false, under_way_ = false, closed_ = false;
};

}  // namespace stepscope
