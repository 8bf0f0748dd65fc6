// Watches for jobs that stand still, from outside: nothing is asked of a rank before it is suspected. Looks every
// kLookNs at when each rank made progress last; from kSuspect of its patience on also at the kernel's view of its
// thread and at its Python stack (stack_asker.h); past it, who keeps the job from going on is judged (diagnose/hang.h).
//
// Before the first step nobody is waited for but by ranks that are in init_process_group: they wait for those that have
// not come to it, in the start of an interpreter, in an import, in the program itself. These are given
// standstill_join_s, or kStartFactor times what the quickest of the waiting needed to come there, from the moment on
// when it began to wait.
//
// Patience: max(standstill_s, standstill_steps usual steps), or kLearned times the longest silence that ended well in
// the same phase; before the first step standstill_startup_s; while the rank saves, compiles, validates or is in a
// phase of the user's, standstill_pause_s, but not while a loader worker it waits for has stood in a lock for kStuckNs.
// `timeout_s` takes the place of standstill_s.
//
// A verdict stands until the job goes on, and stays when it ends without having gone on: until one of the ranks that it
// hangs on begins another step, or writes records for kSettleNs without an exception or the way out. One thread, the
// agent's. Cost while nothing is suspected: a comparison per rank.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "agent/pipeline.h"
#include "agent/stack_asker.h"
#include "diagnose/finding.h"
#include "diagnose/standing.h"
#include "diagnose/thresholds.h"

namespace stepscope {

class HangWatch {
 public:
  static constexpr uint64_t kLookNs = 100'000'000;
  static constexpr double kSuspect = 0.5, kLearned = 2, kStartFactor = 3;
  static constexpr uint64_t kSettleNs = 5'000'000'000, kStuckNs = 2'000'000'000;

  struct Options {
    Thresholds limits;
    double timeout_s = 0;  // 0 = by the thresholds
    bool stacks = true;
  };
  // What became known: "" text = nothing new.
  struct News {
    std::string text;      // for the user, some lines
    bool verdict = false;  // a job was found standing, or for another reason than before
  };

  explicit HangWatch(Options options) : options_(options) {}

  // `starting`: ranks by their environment that have no black box yet. `elsewhere`: where ranks of other nodes stand,
  // asked once some here are suspected; may be null.
  // Where ranks fell: whether they had called different operations, told to the engine once.
  void see_fallen(Pipeline& pipeline, uint64_t now_ns);
  News look(Pipeline& pipeline, uint64_t now_ns, const std::vector<RankLife>& starting = {},
            const std::function<JobStanding()>& elsewhere = nullptr);
  // It looks at ranks closely, and asks them where they are.
  bool asks() const { return !seen_.empty(); }
  const std::optional<Finding>& verdict() const { return verdict_; }
  const JobStanding& standing() const { return standing_; }  // as of the last judgement
  // Where the ranks here stand, for the node that judges the whole job; nothing while none of them is suspected.
  const std::optional<JobStanding>& here() const { return here_; }

 private:
  struct Seen {
    int64_t first_look_ns = 0;
    uint64_t first_ticks = 0;
    char state = 0;
    std::string wait_channel;
    std::optional<double> cpu_share;
  };
  struct Progress {
    int64_t progress_ns = 0;
    uint64_t steps = 0;
  };
  static Progress progress_of(const RankSource& source);
  // A loader worker at a batch, since when it has stood in a lock without computing.
  struct Worker {
    uint64_t since_ns = 0, cpu_ticks = 0;
    std::string lock;
  };
  // `by_nature`: given more at the start and in phases that take long by nature.
  double usual_patience_s(const RankTail& tail, bool by_nature) const;
  double patience_s(const RankTail& tail, uint64_t now_ns) const;
  void look_at_workers(const RankTail& tail, uint64_t now_ns);
  std::vector<StuckWorker> stuck_workers(const RankTail& tail, uint64_t now_ns) const;
  bool suspects(const Pipeline& pipeline, uint64_t now_ns) const;
  bool waits_for_a_start(const Pipeline& pipeline, uint64_t now_ns) const;
  bool goes_on(Pipeline& pipeline, uint64_t now_ns);
  void glance(int rank, int pid, uint64_t start_ticks, uint32_t thread, uint64_t now_ns);
  bool somebody_fell(const JobStanding& job, uint64_t now_ns) const;
  RankStanding standing_of(const RankTail& tail, uint64_t now_ns) const;
  void add_starters(const Pipeline& pipeline, const std::vector<RankLife>& starting, uint64_t now_ns,
                    JobStanding& job) const;
  void give_time_to_start(const Pipeline& pipeline, uint64_t now_ns, JobStanding& job) const;
  JobStanding gather(const Pipeline& pipeline, const std::vector<RankLife>& starting, uint64_t now_ns) const;
  News drop(Pipeline& pipeline, uint64_t now_ns);

  Options options_;
  StackAsker stacks_;
  std::map<int, Seen> seen_;
  std::map<int, std::map<uint32_t, Worker>> workers_;  // of ranks that wait for one
  std::optional<Finding> verdict_;
  JobStanding standing_;
  std::optional<JobStanding> here_;
  std::map<int, Progress> at_verdict_;
  uint64_t due_ns_ = 0, judged_ns_ = 0, began_ns_ = 0, verdict_ns_ = 0;
  double stood_s_ = 0;     // at the verdict
  uint64_t moved_ns_ = 0;  // since when records come again; 0 = none do
};

}  // namespace stepscope
