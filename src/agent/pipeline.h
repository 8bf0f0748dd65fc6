// From processes to a snapshot: a RankSource (steps, life) for each process, one Engine (steps → findings) for the run.
//
//   add(tail) ─▶ pump(now): drain all ─▶ steps of all ranks in step order ─▶ Engine.feed, evaluate ─▶ snapshot()
//
// A tail that has shown no evidence of being a rank is drained but fed to nobody, unless it says which rank it is and
// fails: then that rank could not start, and who else of the same start says so counts with it. Who belongs to which
// attempt is told by evidence (attempt.h). A new attempt counts the run's steps on; a rank that an attempt lost stays a
// finding of the run. A process that takes a rank over while others train on counts on where they are. A live process
// is never ended here: when the ranks begin anew without it, it waits until it fits. Used live (agent loop) and on
// rings left behind (replay); the same rings give the same findings. No clock, no wait, no file but the rings. One
// thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "agent/attempt.h"
#include "agent/rank_tail.h"
#include "agent/stamp_policy.h"
#include "diagnose/engine.h"
#include "diagnose/run_context.h"

namespace stepscope {

class Pipeline {
 public:
  using TailId = stepscope::TailId;

  explicit Pipeline(EngineOptions options);

  TailId add(RankTail tail);
  TailId add(std::unique_ptr<RankSource> source);
  bool has(TailId id) const { return tails_.contains(id); }
  const RankSource& tail(TailId id) const { return *tails_.at(id); }
  const RankTail* ring(TailId id) const { return tail(id).local(); }  // nullptr: it runs on another node
  RankTail* ring(TailId id) { return tails_.at(id)->local(); }
  RemoteRank* remote(TailId id) { return tails_.at(id)->remote(); }  // nullptr: it runs here
  std::vector<TailId> tails() const;                                 // those not dropped, oldest first
  bool counts_as_rank(TailId id) const;                              // of the newest attempt
  void drop(TailId id);                                              // no rank, never will be

  // Reads what is new everywhere and feeds it. Returns the largest share of a ring that one drain found filled (0..1):
  // how urgent the next pump is.
  double pump(uint64_t now_ns);
  // The process behind a tail has ended.
  void end_tail(TailId id, uint64_t now_ns, std::optional<int> wait_status);
  void set_exit_status(int pid, int wait_status);
  void set_oom_kill(TailId id, OomKill seen);  // before end_tail()
  // The user or a scheduler told the job to stop: what ends from now on is no loss.
  void interrupted(int64_t at_ns);
  int64_t interrupted_ns() const { return interrupted_ns_; }  // 0 = never
  void resume_tail(TailId id, const StepMark& mark);

  // It starts ranks: whatever its own black box says, it is none.
  void launcher(int pid) { launchers_.insert(pid); }
  // A process that was to be this rank ended, not well, before it had a black box.
  void start_failed(const RankLife& life, uint64_t now_ns);
  // It says which rank it is and may still become that rank of the newest attempt.
  bool is_starting(TailId id) const;
  const std::map<int, RankLife>& failed_starts() const { return failed_starts_; }  // by rank, of the newest attempt

  // Asks the ranks now and then to stamp when their collectives complete (stamp_policy.h).
  void sample_completions(uint64_t now_ns);

  // Rings of attempts that were closed since the last call; nobody reads them any more.
  std::vector<std::string> take_closed_rings();

  // The run is over: ends what is still open at `now_ns` and judges the whole.
  void finish(uint64_t now_ns);

  // Of all rings, those to come too, copies of completed steps are kept for other nodes (RankTail::copy_steps).
  void copy_steps(bool on);
  // Called with each process that is followed no longer, before what is known of it goes.
  void on_away(std::function<void(TailId, RankSource&)> listener) { on_away_ = std::move(listener); }

  // What the black boxes tell beside steps and lives: losses, attempts, world, nodes, versions, notes. RunInfo beyond
  // that is the caller's.
  RunContext context();
  Snapshot snapshot() { return assemble(engine_, context()); }

  Engine& engine() { return engine_; }
  // Called when an attempt begins (0 is the first), before any of its steps is fed.
  void on_attempt(std::function<void(int)> listener) { on_attempt_ = std::move(listener); }
  int attempts() const { return std::max(1, now_.number + 1); }
  bool saw_rank() const { return now_.number >= 0; }
  // The first death of the newest attempt that was not clean; of any attempt with `any`.
  const UncleanDeath* first_unclean_death(bool any = false) const;
  void note_stopped(TailId id, int64_t at_ns);  // its process was seen stopped by a signal
  // An answer of a rank to "where are you?"; `listener` is told of each.
  void note_code(TailId id, CodeSample sample);
  void on_code(std::function<void(TailId, const CodeSample&)> listener) { on_code_ = std::move(listener); }
  void note(const std::string& text);         // an observer note, once
  void unavailable(const std::string& text);  // "signal: reason", once

 private:
  Claim claim_of(const RankSource& tail) const;
  Members members() const;
  void qualify(TailId id, Members& members, uint64_t now_ns);
  void qualify_all(uint64_t now_ns);
  void admit(TailId id, Place place, Members& members, uint64_t now_ns);
  void follow_renumbered(uint64_t now_ns);
  bool may_qualify(TailId id) const;
  void begin_attempt(const Claim& claim, uint64_t now_ns);
  void close_attempt(bool renumbered, uint64_t now_ns);
  void vacate(int rank);     // its process is gone and another one takes the rank
  void put_away(TailId id);  // its facts are kept, its ring is read no more
  void refuse(TailId id);
  void feed_ready();
  bool feed_placed();
  bool has_other_nodes() const;  // ranks of the job are not on this node
  bool place_newcomers();
  RankLife life_of(int rank, const Participant& participant) const;           // its steps as the attempt counts them
  void tell_life(int rank, Participant& participant, bool as_alive = false);  // as if it had not ended
  void tell_lives();
  void record_death(TailId id);
  void merge_facts(const RankSource& tail);

  std::function<void(int)> on_attempt_;
  std::function<void(TailId, RankSource&)> on_away_;
  std::function<void(TailId, const CodeSample&)> on_code_;
  Engine engine_;
  std::map<TailId, std::unique_ptr<RankSource>> tails_;
  std::set<TailId> refused_;  // for good
  std::set<int> launchers_;   // pids
  std::map<int, RankLife> failed_starts_;
  std::optional<int> failed_restarts_;  // of the start in which a rank failed
  TailId next_id_ = 0;
  int64_t interrupted_ns_ = 0;
  StampPolicy stamps_;
  Attempt now_{.number = -1};
  StepClock clock_;                           // of the attempt's steps that were fed
  std::vector<int64_t> earlier_ends_ns_;      // last records of the attempt before this one
  std::vector<UncleanDeath> earlier_deaths_;  // of earlier attempts and of processes that were replaced
  std::set<uint64_t> told_communicators_;
  uint64_t told_ns_ = 0;                    // when lives were last told without a step
  std::map<uint64_t, size_t> told_groups_;  // group id → members told
  std::map<std::string, std::string> versions_;
  blackbox::ReadStats earlier_totals_;
  std::vector<std::string> notes_, unavailable_, closed_rings_;
  bool finished_ = false, copies_steps_ = false;
};

}  // namespace stepscope
