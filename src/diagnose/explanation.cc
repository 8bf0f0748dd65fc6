#include "diagnose/explanation.h"

#include <algorithm>
#include <numeric>

namespace stepscope {

namespace {

constexpr Claim kCompute = bit_of(Category::kForward) | bit_of(Category::kBackward) | bit_of(Category::kOptimizer);
constexpr Claim kBetween = bit_of(Category::kCheckpoint) | bit_of(Category::kValidation) |
                           bit_of(Category::kEpochStart) | bit_of(Category::kLogging) | bit_of(Category::kUserCode);
constexpr Claim kWaiting = bit_of(Category::kStragglerWait);
// In which the host launches nothing.
constexpr Claim kHostBusy = kBetween | bit_of(Category::kInputWait) | bit_of(Category::kH2d) |
                            bit_of(Category::kHostPause) | bit_of(Category::kCompile) | bit_of(Category::kUnattributed);
constexpr double kMostlyOwned = 0.5;  // of its cost by others: it is their effect

Claim claim_of_phase(const std::string& phase) {
  for (size_t c = 0; c < kCategoryCount; ++c)
    if (phase == kCategoryNames[c]) return 1u << c;
  return 0;
}

bool same_ranks(const Finding& a, const Finding& b) {
  if (a.job_scope || b.job_scope) return true;
  return std::any_of(a.ranks.begin(), a.ranks.end(),
                     [&](int r) { return std::find(b.ranks.begin(), b.ranks.end(), r) != b.ranks.end(); });
}

bool takes_cores(const Finding& f) { return f.kind == FindingKind::kCpuContention; }

// All ranks alike: who is late beyond that comes first.
bool of_a_full_host(const Finding& f) {
  return takes_cores(f) && (f.cause == Cause::kOtherProcesses || f.cause == Cause::kOwnProcesses);
}

// The sum of what lies between the steps holds what stops one rank there now and then.
bool is_part_of(const Finding& sum, const Finding& f) {
  const bool pauses = f.kind == FindingKind::kPauseStraggler || f.kind == FindingKind::kLoggingStall ||
                      f.kind == FindingKind::kCheckpointStall;
  return sum.kind == FindingKind::kBetweenStepsHeavy && pauses &&
         (claim_of_phase(f.phase) & (kBetween | bit_of(Category::kUnattributed))) != 0;
}

bool same_time(const Finding& a, const Finding& b) {
  return ((claim_of(a) & claim_of(b)) != 0 || is_part_of(a, b) || is_part_of(b, a)) && same_ranks(a, b);
}

// What takes a rank's cores makes all of its work slower, and nothing else: late work that is not slower throughout has
// another reason.
bool can_explain(const Finding& cause, const Finding& effect) {
  if (takes_cores(cause))
    return effect.kind != FindingKind::kComputeStraggler || effect.cause == Cause::kSameWorkSlower;
  // Nor does slow work make a rank wait for a core.
  return !takes_cores(effect);
}

// Of time outside of steps, or of none.
bool stands_apart(const Finding& f) {
  const Urgency urgency = urgency_of(f.kind.id());
  return f.cost_share <= 0 || urgency == Urgency::kHint || urgency == Urgency::kHealthy ||
         urgency == Urgency::kProgress || f.kind == FindingKind::kLateStart;
}

// Who names what the time goes into comes before who says that it has no name.
int place(const Finding& f) {
  if (f.kind == FindingKind::kUnexplainedLoss) return 3;
  if (f.kind == FindingKind::kWaitHeavy) return 1;
  if (has(f.kind.id(), kSumsUp)) return 2;
  return f.section == SectionName::kSystem || of_a_full_host(f) ? 1 : 0;
}

class Ledger {
 public:
  explicit Ledger(std::vector<Finding>& findings) : findings_(findings), by_(findings.size(), -1) {}

  void own(size_t i) {
    Finding& f = findings_[i];
    double theirs = 0, most = 0;
    int owner = -1;
    for (size_t o : owners_) {
      const Finding& other = findings_[o];
      // It says what the others leave open, but has not heard of what is sampled outside of steps.
      if (f.kind == FindingKind::kUnexplainedLoss && !takes_cores(other)) continue;
      if (!same_time(other, f) || !can_explain(other, f)) continue;
      theirs += other.cost_share;
      if (other.cost_share > most) most = other.cost_share, owner = static_cast<int>(o);
    }
    if (owner >= 0 && theirs >= kMostlyOwned * f.cost_share) {
      by_[i] = owner;
      return;
    }
    reduce(f, std::clamp(f.cost_share - theirs, 0.0, std::max(0.0, 1 - owned_)));
    owned_ += f.cost_share;
    owners_.push_back(i);
  }

  // The dearest root of those that keep a device waiting.
  void show(size_t i) {
    double most = 0;
    for (size_t o : owners_) {
      const Finding& other = findings_[o];
      const bool keeps_waiting = (claim_of(other) & kHostBusy) != 0 || takes_cores(other);
      if (other.severity == Severity::kInfo || !keeps_waiting || other.cost_share <= most) continue;
      most = other.cost_share, by_[i] = static_cast<int>(o);
    }
  }

  std::vector<int> explained_by() && { return std::move(by_); }

 private:
  static void reduce(Finding& f, double share) {
    if (share >= f.cost_share) return;
    f.evidence.push_back({"counted_elsewhere_share", {}, f.cost_share - share, {}, ""});
    f.cost_seconds *= share / f.cost_share;
    f.cost_share = share;
  }

  std::vector<Finding>& findings_;
  std::vector<int> by_;
  std::vector<size_t> owners_;
  double owned_ = 0;
};

}  // namespace

bool delays_others(const Finding& f) {
  return !f.victims.empty() || has(f.kind.id(), kDelaysOthers) || f.kind == FindingKind::kLoadImbalance;
}

Claim claim_of(const Finding& f) {
  // A straggler costs what the others wait for it. Its own time is nobody's loss beside that.
  if (has(f.kind.id(), kDelaysOthers) || f.kind == FindingKind::kLoadImbalance) return kWaiting;
  const Claim waiting = f.job_scope ? 0 : kWaiting;
  switch (f.kind.id()) {
    case FindingKind::kBetweenStepsHeavy: return kBetween;
    case FindingKind::kCpuContention:
      return f.phase.empty() ? kCompute | kWaiting | bit_of(Category::kCommTransfer) : claim_of_phase(f.phase);
    case FindingKind::kStepTimeChange:
    case FindingKind::kStepTimeDrift:
    case FindingKind::kStepTimeJitter: return f.phase.empty() ? kCompute : claim_of_phase(f.phase);
    default: return claim_of_phase(f.phase) | waiting;
  }
}

std::vector<int> share_out(std::vector<Finding>& findings) {
  std::vector<size_t> order(findings.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const Finding &f = findings[a], &g = findings[b];
    return place(f) != place(g) ? place(f) < place(g) : f.cost_share > g.cost_share;
  });
  Ledger ledger(findings);
  for (size_t i : order)
    if (!stands_apart(findings[i])) ledger.own(i);
  for (size_t i : order)
    if (has(findings[i].kind.id(), kShowsEffects) && findings[i].cost_share <= 0) ledger.show(i);
  return std::move(ledger).explained_by();
}

}  // namespace stepscope
