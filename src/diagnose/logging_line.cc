#include "diagnose/logging_line.h"

#include "base/text_format.h"

namespace stepscope {
namespace {

bool decides(const Tally& t) {
  return t.hits >= kFewest && t.hits >= kDecisive * t.in_scope && share_interval(t.hits, t.in_scope).low >= kLeastLow;
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
  const auto in_logging = [](const CodeSample& sample) { return sample.in_logging; };
  const Tally met = tally(own->second, *scope, in_logging);
  if (!decides(met)) return;
  for (const auto& [rank, list] : samples)
    if (rank != f.ranks.front() && tally(list, *scope, in_logging).share() > kDecisive * met.share()) return;
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
  f.evidence.push_back({"logging_share", f.ranks.front(), met.hits / met.in_scope, {}, ""});
  f.action =
      "Log every N steps, or hand the records to a thread or process that waits instead "
      "(logging.handlers.QueueHandler)";
}

}  // namespace stepscope
