// What the rules see: one selection of rows (the newest steps while the run goes on, else the whole run) with what is
// known around it. Rules are pure functions of it.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "align/host_facts.h"
#include "align/rank_step.h"
#include "align/step_table.h"
#include "analyze/attribution.h"
#include "analyze/rows.h"
#include "diagnose/device_room.h"
#include "diagnose/finding.h"
#include "diagnose/thresholds.h"

namespace stepscope {

// A step that has not ended.
struct OpenStep {
  int rank = -1;
  uint64_t step = 0;
  double open_s = 0;  // since the end of the step before
  Category phase = Category::kUnattributed;
};

struct Judged {
  const Thresholds* limits = nullptr;
  bool over = false;           // the run has ended
  int64_t now_ns = 0;          // CLOCK_MONOTONIC as told while the run goes on; 0 = not told
  int64_t interrupted_ns = 0;  // somebody asked the run to stop; 0 = nobody did
  int ranks = 0;               // of the job
  int world = 0;               // ranks of the job, seen or not
  std::vector<int>
      seen;  // ranks that have a step in scope, ascending; what is compared, waits or is a victim is among them
  int ever_seen = 0;          // how many have had one
  Rows rows;                  // in scope, warm-up left out where enough others exist
  Rows baseline;              // of these, steps without compile, checkpoint, validation, epoch start, loss of records
  Rows with_warmup;           // in scope, warm-up included: faults are traced back into it
  uint64_t steps_closed = 0;  // of the run
  double run_wall_ms = 0;     // measured wall time of the run's completed steps
  double coverage = 0;
  uint64_t records = 0, lost = 0, torn = 0;
  const std::map<int, RankLife>* lives = nullptr;
  const Groups* groups = nullptr;
  const std::set<std::string>* silenced = nullptr;   // causes of ADVICE that the user does not want; "all"
  const UnhookedProcess* unhooked = nullptr;         // told where no rank has appeared
  const std::map<int, DeviceRoom>* rooms = nullptr;  // by rank; empty where nothing was sampled from outside

  // Mean over ranks of the share of wall time in a category; `pick` chooses among the ranks' shares.
  std::vector<double> shares(const std::function<double(const Cell&)>& figure) const;  // per rank, over rows
  double share_of_job(const std::function<double(const Cell&)>& figure) const;         // lower median over ranks
  double share_of_job(Category category) const;
  // A figure of one step: the lower median of its ranks (one slow rank is a straggler, not a bound); NaN when none is
  // there.
  static double of_row(const StepRow& row, const std::function<double(const Cell&)>& figure);
  // A figure's mean ms per step, of the lower median over ranks: over the baseline where there is one.
  double per_step_ms(const std::function<double(const Cell&)>& figure) const;
  double per_step_ms(Category category) const;
  // A finding about the whole job that costs `share` of the time in `category`, `figure` ms of each step; untitled.
  // `late` as for onset().
  Finding of_job(FindingKind kind, Category category, double share, Severity severity,
                 const std::function<double(const Cell&)>& figure, size_t late = 0) const;
  Finding of_job(FindingKind kind, Category category, double share,
                 Severity severity) const;  // figure: the category's time
  // Some of the job's ranks were never seen: what is said holds for the others, and who is last of all is not known.
  bool half_seen() const { return ever_seen < world; }
  // Of the ranks with a step in scope those not listed: who is affected by what the listed ones do.
  std::vector<int> others_than(const std::vector<int>& ranks) const;
  // Where rank `rank` made others wait for `lost_ms` in these rows: whether ranks that were not seen may have been
  // later still, so that nothing would have been won without it. All who met were held up after it came for at least as
  // long.
  static bool may_hide_later_ranks(const Rows& rows, int rank, double lost_ms);
  // Ranks whose newest step should long have ended: open for longer than any step so far, and than a few of the usual
  // ones; while a rank is in a phase that takes long by nature, than `standstill_pause_s`. Leaving the program is no
  // step.
  std::vector<OpenStep> overdue_steps() const;
  // Severity of a cost share for ordinary kinds and for share kinds.
  Severity severity(double share) const;
  Severity share_severity(double share) const;
  double seconds(double share) const { return share * run_wall_ms * 1e-3; }
  // The steps' main axis is a device's (a rank whose events are missing falls back to the host's for that step).
  bool on_device() const;
  size_t batches_ahead() const;  // that loader workers have in flight, at most; 0 without workers
  // A loader too slow from the start is not noticed before the batches that were loaded ahead are used up. Waiting in
  // the end for `share` of the time, it makes 1 - share of a batch per step meanwhile: steps until the first wait.
  size_t steps_hidden_by_queue(double share) const;
  int64_t first_step() const;
  int64_t last_step() const;
  // First step from which `figure(row)` is above the threshold and stays so on average over the steps that follow, so
  // that a figure which comes in bursts counts and a single high step does not (traced back into warm-up). `late`: by
  // so many steps a cause that was there from the start may show late (batches that were loaded ahead).
  template <class Figure>
  int64_t onset(double threshold, Figure figure, size_t late = 0) const {
    const auto& list = with_warmup.rows;
    constexpr size_t kLook = 8;
    constexpr double kCap = 8;  // of the threshold: one step alone cannot lift the mean of kLook above it
    for (size_t i = 0; i < list.size(); ++i) {
      if (!(figure(*list[i]) > threshold)) continue;
      double sum = 0;
      size_t seen = 0, gap = 0;  // gap: steps to the next high one, 1 where all are high
      for (size_t j = i; j < list.size() && seen < kLook; ++j) {
        const double value = figure(*list[j]);
        if (!(value > -kCap * threshold)) continue;  // not known (NaN), or far below: no witness
        if (gap == 0 && j > i && value > threshold) gap = j - i;
        sum += std::min(value, kCap * threshold);
        ++seen;
      }
      // Of a constant figure more than half of what is looked at must be high, so that chance is no onset.
      const double least = gap == 1 ? 1.5 : 1.0;
      if (!(sum > least * threshold * static_cast<double>(seen))) continue;
      // It must go on: the first steps of a run may be high for reasons of their own, two of them together as well.
      const auto goes_on = [&](size_t from, size_t to) {
        return from >= to || std::any_of(list.begin() + static_cast<long>(from), list.begin() + static_cast<long>(to),
                                         [&](const StepRow* row) { return figure(*row) > threshold; });
      };
      if (!goes_on(std::min(i + kLook / 2, list.size()), std::min(i + 3 * kLook / 2, list.size()))) continue;
      // The first burst may come anywhere in the first round.
      return i <= 2 * gap + late ? first_step() : list[i]->step;
    }
    return first_step();
  }
};

// The rules about device memory, in their order of saying. Growth needs the whole history: they are asked over it also
// while the run goes on.
void judge_device_memory(const Judged&, std::vector<Finding>&);

using Rule = void (*)(const Judged&, std::vector<Finding>&);

// The rules, in the order in which they are asked. One file per family (rules_*.cc).
void judge_data(const Judged&, std::vector<Finding>&);        // NO_DATA, WARMUP, INCOMPLETE_DATA
void judge_stragglers(const Judged&, std::vector<Finding>&);  // INPUT_, H2D_, COMPUTE_STRAGGLER, STRAGGLER
void judge_imbalance(const Judged&, std::vector<Finding>&);   // LOAD_IMBALANCE
void judge_pauses(const Judged&, std::vector<Finding>&);      // GC_PAUSE, PAUSE_STRAGGLER
void judge_input(const Judged&, std::vector<Finding>&);       // INPUT_BOUND
void judge_bound(const Judged&, std::vector<Finding>&);       // H2D_BOUND, WAIT_HEAVY
void judge_comm(const Judged&, std::vector<Finding>&);        // COMM_BOUND
void judge_device(const Judged&, std::vector<Finding>&);      // HOST_BOUND, SYNC_STALL
void judge_allocator(const Judged&, std::vector<Finding>&);   // ALLOCATOR_THRASH, CACHE_FLUSH
void judge_between(const Judged&, std::vector<Finding>&);     // CHECKPOINT_STALL … BETWEEN_STEPS_HEAVY, RECOMPILE_STORM
void judge_collectives(const Judged&, std::vector<Finding>&);  // EXTRA_COLLECTIVES
void judge_progress(const Judged&, std::vector<Finding>&);     // RANK_LOST, LATE_START
void judge_trends(const Judged&, std::vector<Finding>&);       // STEP_TIME_CHANGE, STEP_TIME_DRIFT, STEP_TIME_JITTER
void judge_observer(const Judged&, std::vector<Finding>&);     // OBSERVER_DEGRADED
void judge_loss(const Judged&, std::vector<Finding>&);         // UNEXPLAINED_LOSS: of what the others left open

void judge_advice(const Judged&, std::vector<Finding>&);  // ADVICE

// In a job of which some ranks were not seen: marks what was said as said of the others, in scope and words.
void say_who_was_seen(const Judged&, std::vector<Finding>&);

// The model's own compute: forward, backward, optimizer.
bool is_compute(Category category);

}  // namespace stepscope
