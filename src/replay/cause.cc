#include "replay/cause.h"

#include <algorithm>

namespace stepscope::replay {
namespace {

constexpr double kSlight = 1.03, kClear = 1.1;
constexpr double kMainShare = 0.5;

}  // namespace

std::string_view name(Cause cause) {
  switch (cause) {
    case Cause::kSlowWorkers: return "slow_workers";
    case Cause::kLongLastStage: return "long_last_stage";
    case Cause::kUnevenMicrobatches: return "uneven_microbatches";
    case Cause::kSlowCommunication: return "slow_communication";
  }
  return "unknown";
}

std::string_view name(Straggling straggling) {
  return straggling == Straggling::kNone ? "none" : straggling == Straggling::kSlight ? "slight" : "clear";
}

Verdict judge_cause(const Slowdown& s) {
  Verdict out;
  if (!(s.slowdown >= kSlight)) return out;  // the shares divide by nearly nothing
  out.straggling = s.slowdown >= kClear ? Straggling::kClear : Straggling::kSlight;
  const std::pair<Cause, std::optional<double>> shares[] = {{Cause::kSlowWorkers, s.shares.slowest_workers},
                                                            {Cause::kLongLastStage, s.shares.last_stage},
                                                            {Cause::kUnevenMicrobatches, s.shares.microbatches},
                                                            {Cause::kSlowCommunication, s.shares.communication}};
  for (const auto& [cause, share] : shares) {
    if (share && *share >= kMainShare) out.causes.push_back({cause, *share});
  }
  std::ranges::stable_sort(out.causes, std::ranges::greater(), &Verdict::Named::share);
  const auto named = [&](Cause cause) {
    return std::ranges::find(out.causes, cause, &Verdict::Named::cause) != out.causes.end();
  };
  for (size_t i = 0; named(Cause::kSlowWorkers) && i < s.slowest_count; ++i) {
    if (i == 0 || s.workers[i].slowdown >= kSlight) out.slow_workers.push_back(s.workers[i]);
  }
  out.worker_or_stage = s.by_dp_rank.size() == 1 && named(Cause::kSlowWorkers) && named(Cause::kLongLastStage);
  return out;
}

}  // namespace stepscope::replay
