// What a rule is asked about: one selection of rows (rule.h says which) with what is known around it, or what was
// sampled on one node. Rules are pure functions of it.
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
#include "analyze/core_sharing.h"
#include "analyze/load_lead.h"
#include "analyze/numerics.h"
#include "analyze/onset.h"
#include "analyze/rows.h"
#include "diagnose/code_lines.h"
#include "diagnose/device_room.h"
#include "diagnose/finding_builder.h"
#include "diagnose/host_thresholds.h"
#include "diagnose/rank_memory.h"
#include "diagnose/thresholds.h"

namespace stepscope {

// A step that has not ended.
struct OpenStep {
  int rank = -1;
  uint64_t step = 0;
  double open_s = 0;  // since the end of the step before
  Category phase = Category::kUnattributed;
};

struct RuleInput {
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
  const Numerics* numerics = nullptr;                      // of the whole run; null where there are no steps to judge
  const std::set<std::string>* silenced = nullptr;         // causes of ADVICE that the user does not want; "all"
  const UnhookedProcess* unhooked = nullptr;               // told where no rank has appeared
  const RankLife* failed_command = nullptr;                // told where the launch command failed and no rank appeared
  const std::map<int, DeviceRoom>* rooms = nullptr;        // by rank; empty where nothing was sampled from outside
  const std::map<std::string, HostLoad>* loads = nullptr;  // by host name, likewise
  const CodeSamples* code = nullptr;                       // answers to "where are you?"; null where nobody could ask
  std::vector<RankMemory> memory;               // in the window of device memory alone: of ranks with a reading
  const HostFacts* host = nullptr;              // in the window of a node alone, and then there are no rows
  const HostThresholds* host_limits = nullptr;  // as `host`

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
  double per_step_ms_by_row(const std::function<double(const StepRow&)>& figure) const;
  // A finding about the whole job that costs `share` of the time in `category`, `figure` ms of each step; untitled.
  // `late` as for onset().
  FindingBuilder of_job(FindingKind kind, Category category, double share, Severity severity,
                        const std::function<double(const Cell&)>& figure, size_t late = 0) const;
  FindingBuilder of_job(FindingKind kind, Category category, double share,
                        Severity severity) const;  // figure: the category's time
  // As above; `figure` of a row where the lower median of its ranks does not tell it, NaN where it is not known.
  FindingBuilder of_job_by_row(FindingKind kind, Category category, double share, Severity severity,
                               const std::function<double(const StepRow&)>& figure, size_t late = 0) const;
  // Nothing is known of it yet but what the input says of every finding.
  FindingBuilder finding(FindingKind kind) const { return {kind, *this}; }
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
  // Ranks whose processes told of the same host.
  CoreSharing core_sharing() const;
  // By how much of their own time, at most, other programs on their hosts may slow all of these ranks down at once; on
  // a device 0.
  double slowdown_by_others(const std::vector<int>& ranks) const;
  // By so many steps input that is waited for during `share` of the time shows late (analyze/load_lead.h).
  size_t hidden_by_queue(double share) const { return steps_hidden_by_queue(batches_ahead(with_warmup), share); }
  int64_t first_step() const;
  int64_t last_step() const;
  // First step from which `figure(row)` is above the threshold and stays so (analyze/onset.h), traced back into
  // warm-up. `late`: by so many steps a cause that was there from the start may show late (batches that were loaded
  // ahead).
  template <class Figure>
  int64_t onset(double threshold, Figure figure, size_t late = 0) const {
    const auto& list = with_warmup.rows;
    if (list.empty()) return first_step();
    return list[onset_index(list.size(), threshold, [&](size_t i) { return figure(*list[i]); }, late)]->step;
  }
};

// The model's own compute: forward, backward, optimizer.
bool is_compute(Category category);

}  // namespace stepscope
