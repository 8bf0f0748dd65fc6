// What interrupts the thread, and what the thread uses.
#include "align/event_rows.h"
#include "align/sync_sites.h"

namespace stepscope {

// In what covers all inside it (compiling, a checkpoint) it is a part of that.
void gc_ends(OpenRank& rank, const Event&, int64_t t, const OpenSpan* span) {
  if (span && rank.started && !rank.stack.covered()) rank.parts.facts().gc_ns += t - span->begin_ns;
}

void sync_ends(OpenRank& rank, const Event&, int64_t t, const OpenSpan* span) {
  if (!span || !rank.started) return;
  const std::string* site = rank.names.find(NameKind::kCallSite, span->id);
  rank.parts.facts().sync_ns += t - span->begin_ns;
  add_sync(rank.life.sync_sites, site ? *site : "", t - span->begin_ns);
}

void tell_usage(OpenRank& rank, const Event& e, int64_t) {
  rank.parts.usage().told({static_cast<int64_t>(e.a), static_cast<int64_t>(e.b), static_cast<int64_t>(e.c)});
}

}  // namespace stepscope
