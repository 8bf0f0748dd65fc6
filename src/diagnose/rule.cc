#include "diagnose/rule.h"

#include <algorithm>
#include <array>

#include "base/text_format.h"

namespace stepscope {

namespace {

constexpr Rule kRules[] = {
#define RULE(name, windows) {#name, windows, judge_##name},
#include "diagnose/rules.def"
#undef RULE
};

// What rules say of a job holds for the ranks that were seen. Each finding carries that with it, so that no view can
// leave it out.
void say_who_was_seen(const RuleInput& in, std::vector<Finding>& out) {
  if (!in.half_seen()) return;
  // About what was not seen, about the program's text, or about ourselves.
  constexpr std::array kSaysSo = {FindingKind::kNoData, FindingKind::kWarmup, FindingKind::kIncompleteData,
                                  FindingKind::kAdvice, FindingKind::kObserverDegraded};
  // That ranks have no steps yet is what is said of a job that could not start, not a gap in it.
  const bool none_started = in.ever_seen == 0 && static_cast<int>(in.lives->size()) >= in.world;
  for (Finding& f : out) {
    if (none_started && f.kind == FindingKind::kRankLost) continue;
    if (f.of_seen || std::find(kSaysSo.begin(), kSaysSo.end(), f.kind.id()) != kSaysSo.end()) continue;
    f.of_seen = true;
    f.confidence *= static_cast<double>(in.ever_seen) / in.world;
    f.title += formatted(" ({} of {} ranks seen)", in.ever_seen, in.world);
  }
}

}  // namespace

std::span<const Rule> rules() { return kRules; }

std::vector<Finding> ask(RuleWindow window, const RuleInput& in) {
  std::vector<Finding> out;
  for (const Rule& rule : kRules)
    if (rule.windows & window) rule.judge(in, out);
  say_who_was_seen(in, out);
  return out;
}

}  // namespace stepscope
