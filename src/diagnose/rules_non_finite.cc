// NON_FINITE: a loss or a gradient norm is NaN or infinite: who was first, in what, what became of it. In data parallel
// training the gradients of all ranks are summed up, so that one rank's NaN is everybody's in the same step: the rank
// whose own loss was the first is the one. Steps that GradScaler skips are how it finds its scale; when it skips most
// of them nothing is learned any more.
#include <algorithm>
#include <cmath>

#include "base/text_format.h"
#include "diagnose/rule.h"

namespace stepscope {

namespace {

// The ranks that were first, where they are told from the others: their loss was not finite in the first step, and that
// of all others was seen to be.
std::vector<int> first_ranks(const NonFinite& episode, size_t seen) {
  std::vector<int> first;
  for (const auto& [rank, what] : episode.ranks)
    if (what.step == episode.first_step && (what.what & kLossNotFinite) != 0) first.push_back(rank);
  return first.size() + episode.finite_then.size() >= seen ? first : std::vector<int>{};
}

std::string word_of(const NonFinite& episode, uint32_t what) {
  bool nan = false, infinite = false;
  for (const auto& [rank, first] : episode.ranks) {
    if (first.step != episode.first_step || (first.what & what) == 0) continue;
    nan |= std::isnan(first.value);
    infinite |= std::isinf(first.value);
  }
  return nan == infinite ? "not finite" : nan ? "NaN" : "infinite";
}

void describe(FindingBuilder& f, const NonFinite& episode) {
  for (const auto& [rank, first] : episode.ranks) {
    constexpr size_t kMostRanks = 4;
    if (f->evidence.size() >= kMostRanks) break;
    f.evidence(first.what & kLossNotFinite ? "loss_not_finite_from_step" : "grad_norm_not_finite_from_step",
               static_cast<double>(first.step), rank);
  }
  int64_t spread = -1;
  for (const auto& [rank, first] : episode.ranks) spread = std::max(spread, first.step);
  if (spread > episode.first_step && episode.ranks.size() > 1)
    f.evidence("all_of_them_from_step", static_cast<double>(spread));
  f.evidence("ranks_not_finite", static_cast<double>(episode.ranks.size()));
  f.evidence("steps_not_finite", static_cast<double>(episode.steps));
}

void judge_episode(const RuleInput& in, const NonFinite& episode, std::vector<Finding>& out) {
  const std::vector<int> first = first_ranks(episode, in.seen.size());
  const bool some = !first.empty() && first.size() < in.seen.size();
  const bool of_loss = std::any_of(episode.ranks.begin(), episode.ranks.end(), [&](const auto& one) {
    return one.second.step == episode.first_step && (one.second.what & kLossNotFinite) != 0;
  });
  const std::string word = word_of(episode, of_loss ? kLossNotFinite : kGradNormNotFinite);
  const auto newest = static_cast<int64_t>(in.steps_closed) - 1;
  const int64_t last = episode.over ? episode.last_step : std::max(newest, episode.last_step);
  const auto lost = static_cast<uint64_t>(std::max<int64_t>(1, last - episode.first_step + 1));
  FindingBuilder f = in.finding(FindingKind::kNonFinite);
  if (some)
    f.about(first);
  else
    f.about_job();
  const double share = in.run_wall_ms > 0 && !episode.over ? std::min(1.0, episode.wall_ms / in.run_wall_ms) : 0;
  f.costs(share).graded(episode.over ? Severity::kInfo : Severity::kCrit);
  f.from(episode.first_step).until(last).confidence(some || !of_loss ? 0.95 : 0.9);
  const std::string who = some                 ? " on " + format_ranks(first)
                          : in.seen.size() < 2 ? ""
                          : !of_loss           ? " while every loss seen was finite"
                          : first.empty()      ? ", and which rank was first cannot be told"
                                               : " on all ranks at once";
  const std::string what = of_loss ? "The loss" : "The gradient norm";
  if (episode.over)
    f.title(formatted("{} was {} at step {}{} ({}), and training recovered", what, word, episode.first_step, who,
                      format_steps(episode.steps)));
  else
    f.title(formatted("{} became {} at step {}{}: {} since then {} lost", what, word, episode.first_step, who,
                      format_steps(lost), lost == 1 ? "is" : "are"));
  describe(f, episode);
  if (in.numerics->episodes() > 1) f.evidence("times", static_cast<double>(in.numerics->episodes()));
  f.action(some ? formatted("Look at the batch of {} in step {}: NaN or inf in the data, log or division by zero; skip "
                            "such a step on all ranks together, and restart from a checkpoint before it",
                            format_ranks(first), episode.first_step)
                : formatted("Restart from a checkpoint before step {} with a lower learning rate, a longer warm-up or "
                            "gradient clipping; torch.autograd.set_detect_anomaly(True) for a few steps names the "
                            "operation",
                            episode.first_step));
  out.push_back(f);
}

void judge_skipped(const RuleInput& in, const SkippedPhase& phase, std::vector<Finding>& out) {
  if (phase.first_step < 0 || phase.steps == 0) return;
  FindingBuilder f = in.finding(FindingKind::kNonFinite);
  std::vector<int> own;
  for (const auto& [rank, steps] : phase.overflow)
    if (2 * steps > phase.skipped) own.push_back(rank);
  const bool some = !own.empty() && own.size() < in.seen.size();
  if (some)
    f.about(own);
  else
    f.about_job();
  const double share = in.run_wall_ms > 0 ? std::min(1.0, phase.wall_ms / in.run_wall_ms) : 0;
  const double skipped = static_cast<double>(phase.skipped) / static_cast<double>(phase.steps);
  f.caused_by(Cause::kOverflow).costs(share).graded(phase.over ? Severity::kInfo : Severity::kCrit);
  f.from(phase.first_step).until(phase.last_step).confidence(0.95);
  f.title(formatted(
      "GradScaler skipped {} of the steps {} step {}{}", format_percent(skipped), phase.over ? "from" : "since",
      phase.first_step,
      some ? formatted(": the scaled loss of {} is not finite", format_ranks(own)) : ": scaled gradients overflow"));
  f.action(some
               ? formatted("Look at the batches and the loss of {}; a NaN there is skipped by all ranks, and the scale "
                           "falls towards zero",
                           format_ranks(own))
               : "Train in bfloat16, which needs no scaling, or find what overflows: compute losses and softmax in "
                 "float32, lower the learning rate, clip gradients after scaler.unscale_()");
  f.evidence("skipped_steps", static_cast<double>(phase.skipped)).evidence("skipped_share", skipped);
  out.push_back(f);
}

}  // namespace

void judge_non_finite(const RuleInput& in, std::vector<Finding>& out) {
  if (!in.numerics || in.seen.empty()) return;
  const std::vector<NonFinite>& all = in.numerics->non_finite();
  if (!all.empty()) judge_episode(in, all.back().over ? all.front() : all.back(), out);
  judge_skipped(in, in.numerics->skipped(), out);
}

}  // namespace stepscope
