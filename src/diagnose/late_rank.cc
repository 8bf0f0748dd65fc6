#include "diagnose/late_rank.h"

namespace stepscope {

namespace {

const char* action_of(FindingKind kind, Lateness lateness, std::optional<Category> phase, Cause cause) {
  if (lateness == Lateness::kTransient)
    return cause == Cause::kDescheduled
               ? "Something takes this rank's core: bind ranks to cores, look for other processes"
               : "Look for blocking work on this rank only: logging, uploads, file writes, prints";
  if (kind == FindingKind::kInputStraggler)
    return "Look at this rank's loader: its storage, its share of the data, its worker count and CPU binding";
  if (kind == FindingKind::kH2dStraggler) return "Check this rank's pinned memory and PCIe link";
  if (kind == FindingKind::kPauseStraggler)
    return "find what pauses this rank: garbage collection, logging, a blocking call";
  if (cause == Cause::kLaunchBound)
    return "this rank's GPU waits for its host: look at its CPU (other processes, NUMA, Python work, many small "
           "kernels)";
  if (cause == Cause::kMoreWork)
    return "This rank gets more work than the others: deal the data out evenly, by tokens and not by samples, or pack "
           "by "
           "length";
  if (cause == Cause::kSameWorkSlower)
    return "Same work, slower in every phase: check what else runs on this rank's cores, its clocks and its node";
  switch (phase.value_or(Category::kUnattributed)) {
    case Category::kForward: return "Compare this rank's batch shapes and forward code with the others'";
    case Category::kBackward:
      return "Compare this rank's backward: custom autograd functions, hooks, shapes; the first late bucket names the "
             "layers";
    case Category::kOptimizer:
      return "Look for work on this rank only around optimizer.step (hooks, clipping, logging)";
    default: return "Look at what this rank does that the others do not";
  }
}

}  // namespace

FindingKind kind_of_late_rank(Lateness lateness, std::optional<Category> phase) {
  if (phase == Category::kInputWait) return FindingKind::kInputStraggler;
  if (lateness == Lateness::kTransient)
    return phase == Category::kLogging ? FindingKind::kLoggingStall : FindingKind::kPauseStraggler;
  if (!phase) return FindingKind::kStraggler;
  if (is_compute(*phase)) return FindingKind::kComputeStraggler;
  if (phase == Category::kH2d) return FindingKind::kH2dStraggler;
  return phase == Category::kHostPause ? FindingKind::kPauseStraggler : FindingKind::kStraggler;
}

FindingBuilder late_rank(const RuleInput& in, Lateness lateness, int rank, std::optional<Category> phase, Cause cause) {
  const FindingKind kind = kind_of_late_rank(lateness, phase);
  FindingBuilder f = in.finding(kind);
  f.about(rank).holding_up(in.others_than({rank})).caused_by(cause);
  if (phase) f.in(*phase);
  f.pattern(lateness == Lateness::kChronic ? "chronic" : "transient");
  return f.action(action_of(kind, lateness, phase, cause));
}

}  // namespace stepscope
