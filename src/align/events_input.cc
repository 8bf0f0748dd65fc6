// Batches: loaders, fetches, copies to the device.
#include "align/event_rows.h"

namespace stepscope {

bool fetch_begins(OpenRank& rank, const Event& e, int64_t t, OpenSpan& span) {
  rank.start(t);
  rank.drop_unused_batch(t);
  rank.loss_gap = false;
  if (rank.loaders.trains(e.a)) rank.evaluating = false;
  if (rank.loaders.evaluates(e.a)) rank.evaluating = true;
  span.category = rank.loaders.fetch_category(e.a);
  return true;
}

void fetch_ends(OpenRank& rank, const Event& e, int64_t t, const OpenSpan* span) {
  if (!span) return;
  if (e.flags & kFetchStop) return;  // exhausted: no batch came, so what follows decides nothing about its role
  const int64_t ns = t - span->begin_ns;
  rank.modes.batch();
  if (span->category == Category::kInputWait)
    rank.parts.open().move_own(Category::kInputWait, Category::kEpochStart, rank.loaders.opening_ns(e.a, ns));
  rank.last_batch = rank.loaders.fetched(e.a, ns, span->category);
  if (rank.last_batch > 0) rank.count_batch(rank.last_batch, 0);
  rank.parts.facts().fetch.add({.fetches = 1,
                                .ready = static_cast<uint32_t>(e.c),
                                .out_of_order = static_cast<uint32_t>(e.d),
                                .in_flight = static_cast<uint32_t>(e.b),
                                .longest_ns = ns});
}

bool iterator_begins(OpenRank& rank, const Event& e, int64_t, OpenSpan& span) {
  rank.stack.drop_unfinished_parts();
  rank.loaders.created(e.a, e.b > 0, static_cast<double>(e.c));
  span.category = rank.loaders.epoch_category(e.a);
  return true;
}

// An epoch's end belongs to the change of epochs.
bool iterator_end_begins(OpenRank& rank, const Event& e, int64_t, OpenSpan& span) {
  span.category = rank.loaders.epoch_category(e.a);
  return true;
}

bool copy_begins(OpenRank& rank, const Event& e, int64_t, OpenSpan&) {
  if (rank.started && !rank.evaluating) rank.parts.facts().h2d_bytes += static_cast<double>(e.a);
  return true;
}

void tell_shape(OpenRank& rank, const Event& e, int64_t) {
  rank.count_batch(static_cast<double>(e.a) - rank.last_batch, static_cast<double>(e.b));
  rank.last_batch = 0;
}

}  // namespace stepscope
