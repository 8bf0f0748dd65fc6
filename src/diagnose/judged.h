// What the rules see: one selection of rows (the newest steps while the run goes on, else the whole run) with what is
// known around it. Rules are pure functions of it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "align/rank_step.h"
#include "align/step_table.h"
#include "analyze/attribution.h"
#include "analyze/rows.h"
#include "diagnose/finding.h"
#include "diagnose/thresholds.h"

namespace stepscope {

struct Judged {
  const Thresholds* limits = nullptr;
  bool over = false;            // the run has ended
  int ranks = 0;
  Rows rows;                    // in scope, warm-up left out where enough others exist
  Rows baseline;                // of these, steps without compile, checkpoint, validation, epoch start, loss of records
  Rows with_warmup;             // in scope, warm-up included: faults are traced back into it
  uint32_t steps_closed = 0;    // of the run
  double run_wall_ms = 0;       // measured wall time of the run's completed steps
  double coverage = 0;
  uint64_t records = 0, lost = 0, torn = 0;
  const std::map<int, RankLife>* lives = nullptr;
  const Groups* groups = nullptr;

  // Mean over ranks of the share of wall time in a category; `pick` chooses among the ranks' shares.
  std::vector<double> shares(Category category) const;   // per rank, over rows
  double share_of_job(Category category) const;          // lower median over ranks
  // Severity of a cost share for ordinary kinds and for share kinds.
  Severity severity(double share) const;
  Severity share_severity(double share) const;
  double seconds(double share) const { return share * run_wall_ms * 1e-3; }
  int64_t first_step() const;
  int64_t last_step() const;
  // First step from which `shows(row)` holds for most of the steps that follow (traced back into warm-up).
  template <class Shows>
  int64_t onset(Shows shows) const {
    const auto& list = with_warmup.rows;
    constexpr size_t kLook = 8;
    for (size_t i = 0; i < list.size(); ++i) {
      if (!shows(*list[i])) continue;
      size_t hits = 0, seen = 0;
      for (size_t j = i; j < list.size() && seen < kLook; ++j, ++seen) hits += shows(*list[j]) ? 1 : 0;
      if (hits * 4 >= seen * 3) return list[i]->step;
    }
    return first_step();
  }
};

using Rule = void (*)(const Judged&, std::vector<Finding>&);

// The rules, in the order in which they are asked. One file per family (rules_*.cc).
void judge_data(const Judged&, std::vector<Finding>&);         // NO_DATA, WARMUP, INCOMPLETE_DATA
void judge_stragglers(const Judged&, std::vector<Finding>&);   // INPUT_, H2D_, COMPUTE_STRAGGLER, STRAGGLER
void judge_pauses(const Judged&, std::vector<Finding>&);       // GC_PAUSE, PAUSE_STRAGGLER
void judge_bound(const Judged&, std::vector<Finding>&);        // INPUT_, H2D_, COMM_BOUND, WAIT_HEAVY
void judge_between(const Judged&, std::vector<Finding>&);      // CHECKPOINT_STALL … BETWEEN_STEPS_HEAVY, RECOMPILE_STORM
void judge_collectives(const Judged&, std::vector<Finding>&);  // EXTRA_COLLECTIVES
void judge_progress(const Judged&, std::vector<Finding>&);     // RANK_LOST, LATE_START
void judge_observer(const Judged&, std::vector<Finding>&);     // OBSERVER_DEGRADED
void judge_balance(const Judged&, std::vector<Finding>&);      // COMPUTE_BOUND, BALANCED: when nothing else was said

// Text helpers shared by titles: "48 ms", "1.5 s", "21 %", "ranks 0, 2, 3".
std::string text_ms(double ms);
std::string text_share(double share);
std::string text_ranks(const std::vector<int>& ranks);

}  // namespace stepscope
