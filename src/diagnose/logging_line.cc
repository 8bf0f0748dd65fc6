#include "diagnose/logging_line.h"

#include <algorithm>

#include "base/text_format.h"

namespace stepscope {
namespace {

struct Counted {
  double all = 0, in_phase = 0, logging = 0;
  double share() const { return all > 0 ? logging / all : 0; }
  bool decides() const {
    return logging >= kFewest && logging >= kDecisive * in_phase && share_interval(logging, in_phase).low >= kLeastLow;
  }
};

Counted count(const std::vector<CodeSample>& samples, const LineScope& scope) {
  Counted c;
  for (const CodeSample& s : samples) {
    if (s.beside) continue;
    ++c.all;
    if (!scope.holds(s)) continue;
    ++c.in_phase, c.logging += s.in_logging;
  }
  return c;
}

bool may_be_logging(const Finding& f) {
  const bool late = f.kind == FindingKind::kStraggler || f.kind == FindingKind::kPauseStraggler;
  return late && f.ranks.size() == 1 &&
         (f.phase == name(Category::kUnattributed) || f.phase == name(Category::kUserCode));
}

}  // namespace

void name_logging(Finding& f, const CodeSamples& samples) {
  if (!may_be_logging(f)) return;
  const auto scope = line_scope(f);
  const auto own = samples.find(f.ranks.front());
  if (!scope || own == samples.end()) return;
  const Counted c = count(own->second, *scope);
  if (!c.decides()) return;
  for (const auto& [rank, list] : samples)
    if (rank != f.ranks.front() && count(list, *scope).share() > kDecisive * c.share()) return;
  const bool chronic = f.kind == FindingKind::kStraggler;
  const Finding stall = Finding::of(FindingKind::kLoggingStall);
  f.kind = stall.kind, f.section = stall.section;
  f.cause = Cause::kNone;
  const size_t who_waits = f.title.find("; ");
  if (chronic)
    f.title = formatted("Rank {} is late in logging{}", f.ranks.front(),
                        who_waits == f.title.npos ? "" : f.title.substr(who_waits));
  else
    f.title += ", in logging";
  f.evidence.push_back({"logging_share", f.ranks.front(), c.logging / c.in_phase, {}, ""});
  f.action =
      "Log every N steps, or hand the records to a thread or process that waits instead "
      "(logging.handlers.QueueHandler)";
}

}  // namespace stepscope
