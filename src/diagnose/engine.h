// The engine: RankSteps in, findings and snapshot out. Fed step by step in order, live and replayed alike; it never
// looks ahead. Pure: no clock, no file, no socket. Time that passes without a step is told by tick().
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "align/host_facts.h"
#include "align/rank_step.h"
#include "align/step_table.h"
#include "analyze/host_load.h"
#include "diagnose/code_lines.h"
#include "diagnose/device_room.h"
#include "diagnose/snapshot.h"

namespace stepscope {

struct EngineOptions {
  int world_size = 0;                        // ranks that will be fed, 0 to world_size - 1; 0 = learned
  std::map<std::string, double> thresholds;  // overrides of spec/rules.toml names
  std::vector<std::string> silence;          // causes of ADVICE that nobody wants to hear, or "all"
  double flops_per_step = 0;                 // of one rank, where the program does not log them; 0 = not known
  double peak_flops = 0;                     // FLOP/s of one device; 0 = by its name, where that is known
};

// Ranks whose processes are gone while the run goes on: an attempt that was followed by another, or one process whose
// rank another took over.
struct PastRanks {
  std::vector<RankLife> lives;         // as they ended
  std::string remark;                  // behind the titles: attempt_remark(), "; another process took its place"
  Severity at_most = Severity::kCrit;  // the run went on
  uint64_t first_step = 0;             // of the run, from which their lives count
};

// How findings of an earlier attempt are marked: " (attempt 1)".
std::string attempt_remark(int number);

class Engine {
 public:
  explicit Engine(EngineOptions options);
  ~Engine();

  // A completed step of a rank (global rank number). Steps of one rank come in order.
  void feed(int rank, RankStep step);
  // Steps of this rank of so many will be fed: no row closes without it before others are far ahead. set_life() says so
  // too.
  void announce(int rank, int world_size);
  // Newest knowledge about a rank's process; replaces what was known.
  void set_life(int rank, const RankLife& life);
  // What is known from outside about the memory of the rank's device; replaces what was known.
  void set_device_room(int rank, DeviceRoom room);
  // What is known from outside about the cores of a host, by the name its ranks tell; replaces what was known.
  void set_host_load(const std::string& hostname, HostLoad load);
  // The rank's process was seen stopped by a signal at this moment (CLOCK_MONOTONIC), before the step is fed that it
  // was in.
  void note_stopped(int rank, int64_t at_ns);
  // Group membership by group id: description and global ranks.
  void set_group(uint64_t id, const std::string& description, const std::vector<int>& ranks);
  // How many ranks a communicator has whose ranks nobody told.
  void set_group_size(uint64_t id, size_t size);
  // Who was lost of ranks whose processes are gone stays a finding of the run.
  void part_with(const PastRanks& past);
  // A new attempt of the run's ranks begins (elastic restart), after part_with() the one before: steps are counted on,
  // lives start anew. It may have fewer ranks than the one before; 0 = not known, as many.
  void begin_attempt(int world_size = 0);
  // Somebody asked the run to stop (Ctrl-C, SIGTERM): ranks that end after this moment are not lost.
  void set_interrupted(int64_t at_ns);
  // Time that passes with or without steps (CLOCK_MONOTONIC), after set_life() where a life has news: a step that does
  // not end is noticed. Looks at most once a second of it.
  void tick(int64_t now_ns);
  // Said where no rank has appeared: this process has torch loaded and not our hooks.
  void set_unhooked(UnhookedProcess process);
  // Said where no rank has appeared and the launch command has failed: how it ended (exit code or signal, exception).
  void set_failed_command(RankLife command);
  // The job stands still for this reason; nothing = it goes on. Ranks that end while it stands are no loss of their
  // own.
  void set_hang(std::optional<Finding> finding);
  // That ranks of this attempt fell over different operations (judge_fallen).
  void set_fallen(Finding finding);
  bool told_fallen() const;
  // Where a rank was at some moment; the findings that it tells of carry the line (diagnose/code_lines.h). Of each rank
  // the newest kMostCodeSamples are kept.
  static constexpr size_t kMostCodeSamples = 512;
  void note_code(int rank, CodeSample sample);
  const CodeSamples& code() const;
  // Facts for rules that stand outside of steps (System, Process sections; sampler). Sections and findings are merged.
  void add_external(Finding finding);
  void set_section(Section section);

  // Every closed row, attributed, once and in order: for the run file. Called from within feed(), evaluate(), finish().
  void set_row_sink(std::function<void(const StepRow&)> sink);

  // Evaluates the rules on what has been fed; opens and closes findings. Cheap when nothing is new, or too little to be
  // worth it: at least 0.1 s of recorded time and 20 ms per rank (2 ms beyond 64) lie between two evaluations.
  void evaluate();
  // The run is over: closes all steps, evaluates over the whole run.
  void finish();

  // Findings, ledger, phases, ranks, steps, collectives. RunInfo, system and process values are the caller's.
  Snapshot snapshot() const;
  uint64_t closed_steps() const;
  // What the rules said at the last evaluation, as they said it: neither ordered nor shared out.
  const std::vector<Finding>& said() const;
  // Something of warn or crit is said, as of the last evaluation, of communication or of ranks that make others wait.
  bool suspects_communication() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stepscope
