// What rules say of a job holds for the ranks that were seen. Where some were not, each finding carries that with it,
// so that no view can leave it out.
#include <algorithm>
#include <array>

#include "base/text_format.h"
#include "diagnose/judged.h"

namespace stepscope {

void say_who_was_seen(const Judged& j, std::vector<Finding>& out) {
  if (!j.half_seen()) return;
  // About what was not seen, about the program's text, or about ourselves.
  constexpr std::array kSaysSo = {FindingKind::kNoData, FindingKind::kWarmup, FindingKind::kIncompleteData,
                                  FindingKind::kAdvice, FindingKind::kObserverDegraded};
  for (Finding& f : out) {
    if (f.of_seen || std::find(kSaysSo.begin(), kSaysSo.end(), f.kind.id()) != kSaysSo.end()) continue;
    f.of_seen = true;
    f.confidence *= static_cast<double>(j.ever_seen) / j.world;
    f.title += formatted(" ({} of {} ranks seen)", j.ever_seen, j.world);
  }
}

}  // namespace stepscope
