// The numbers of training over the run: values that are not finite, steps that GradScaler skips, norms of gradients
// that replicas should share, jumps of loss and norm, schedulers that run ahead. Exact over all closed rows, however
// long the run.
//
// A plain value, fed row by row in order. Memory: about 1 KiB per rank. Cost: some 50 ns per cell.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "align/step_table.h"
#include "analyze/replicas.h"
#include "analyze/spike_track.h"

namespace stepscope {

// Steps in which a loss or a gradient norm was not finite, one after the other, and no GradScaler skipped the step.
struct NonFinite {
  struct First {
    int64_t step = -1;
    uint32_t what = 0;  // kLossNotFinite, kGradNormNotFinite
    double value = 0;   // as it was: not-a-number or infinite; 0 = not told
  };
  int64_t first_step = -1, last_step = -1;
  uint64_t steps = 0;          // with such a value
  double wall_ms = 0;          // of the steps from the first on
  std::map<int, First> ranks;  // by rank
  // Ranks whose loss was seen finite in the first of these steps.
  std::vector<int> finite_then;
  bool over = false;  // all of these ranks have told finite values since
};

// GradScaler skips most steps.
struct SkippedPhase {
  int64_t first_step = -1, last_step = -1;
  uint64_t steps = 0, skipped = 0;
  double wall_ms = 0;                // of the skipped ones
  std::map<int, uint64_t> overflow;  // by rank: skipped steps in which its own loss was not finite
  bool over = false;
};

struct SchedulerPace {
  uint64_t steps = 0;        // of the job
  uint64_t ahead_steps = 0;  // in which the scheduler advanced more often than the optimizer stepped
  uint64_t advances = 0, optimizer_steps = 0, backwards = 0;
  int64_t first_ahead = -1, last_ahead = -1;
  int64_t before_first = -1;  // step in which it advanced before any optimizer had stepped
};

// Optimizer's steps that a rank left out while the others took theirs: its step before has gone over the operations of
// two, and in the row of the second it has none.
struct LeftOut {
  int64_t first_step = -1, last_step = -1;
  uint64_t steps = 0;
};

class Numerics {
 public:
  struct Limits {
    double skipped_share = 0.5;  // of the newest kSkipWindow steps
    size_t skipped_after = 32;   // steps in which a GradScaler looks for its scale
    SpikeTrack::Limits spikes;
    Replicas::Limits replicas;
  };
  static constexpr size_t kSkipWindow = 32;
  static constexpr size_t kMaxEpisodes = 8;

  explicit Numerics(Limits limits) : limits_(limits), replicas_(limits.replicas), rates_(limits.replicas) {}

  void add(const StepRow& row);
  // The job's ranks start anew: what was going on is over, who is a replica of whom is learned again.
  void begin_attempt();

  // Oldest first: the first of the run, and the newest. `episodes` counts those that are no longer kept, too.
  const std::vector<NonFinite>& non_finite() const { return non_finite_; }
  uint64_t episodes() const { return episodes_; }
  const SkippedPhase& skipped() const { return skipped_; }  // the newest; first_step -1 = none
  const SchedulerPace& scheduler() const { return scheduler_; }
  const Replicas& replicas() const { return replicas_; }                // by their gradient norms
  const Replicas& rates() const { return rates_; }                      // by their learning rates
  const std::map<int, LeftOut>& left_out() const { return left_out_; }  // by rank
  const std::map<int, SpikeTrack>& losses() const { return losses_; }
  const std::map<int, SpikeTrack>& norms() const { return norms_; }
  uint64_t rows() const { return rows_; }

 private:
  void add_non_finite(const StepRow& row);
  void add_skipped(const StepRow& row);
  void add_scheduler(const StepRow& row);
  void add_values(const StepRow& row);
  void add_left_out(const StepRow& row);

  Limits limits_;
  std::vector<NonFinite> non_finite_;
  uint64_t episodes_ = 0;
  std::vector<int> not_yet_finite_;  // ranks of the newest episode
  SkippedPhase skipped_;
  std::vector<bool> newest_skips_;
  SchedulerPace scheduler_;
  Replicas replicas_, rates_;
  struct Counted {
    int rank = -1;
    uint32_t backwards = 0, collectives = 0, optimizer_steps = 0;
    bool lossy = false;
  };
  std::vector<Counted> newest_;  // of the row before, by rank; of who left a step out what its step before has beyond
  int64_t newest_step_ = -2;
  std::map<int, LeftOut> left_out_;
  std::map<int, SpikeTrack> losses_, norms_;
  uint64_t rows_ = 0;
};

}  // namespace stepscope
