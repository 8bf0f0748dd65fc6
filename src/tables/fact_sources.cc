#include "tables/fact_sources.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "align/rank_state.h"
#include "report/summary_read.h"
#include "tables/item_source.h"

namespace stepscope::tables {
namespace {

using MaybeInt = std::optional<int64_t>;
using MaybeText = std::optional<std::string_view>;
using Ranks = std::span<const int>;

MaybeInt unless_negative(int64_t value) { return value < 0 ? std::nullopt : MaybeInt(value); }
std::optional<int32_t> unless_negative(int32_t value) {
  return value < 0 ? std::nullopt : std::optional<int32_t>(value);
}
MaybeText unless_empty(std::string_view text) { return text.empty() ? std::nullopt : MaybeText(text); }
Ranks view(const std::vector<int>& ranks) { return ranks; }

// A page that `ask` answers, once.
template <class Item, class Ask>
typename ItemSource<Item>::Fetch one_page(SharedReader reader, Ask ask) {
  return [reader, ask, done = false]() mutable -> Result<std::optional<std::vector<Item>>> {
    if (std::exchange(done, true) || !reader) return std::nullopt;
    Result<std::vector<Item>> items = ask(*reader);
    if (!items) return std::unexpected(items.error());
    return std::move(*items);
  };
}

template <class Item>
Source source(std::vector<ItemColumn<Item>> columns, typename ItemSource<Item>::Fetch fetch) {
  return std::make_unique<ItemSource<Item>>(std::move(columns), std::move(fetch));
}

template <class Item>
ItemColumn<Item> with_words(ItemColumn<Item> column, std::span<const std::string> words) {
  column.field.words = word_list(words);
  return column;
}

// One rank's sum of one category over the steps of one attempt.
struct LedgerLine {
  int32_t attempt = 0, rank = 0;
  Word category;
  double total_ms = 0, wall_ms = 0;
  std::optional<double> host_total_ms;
  int64_t steps = 0;
};

std::vector<LedgerLine> ledger_lines(int32_t attempt, const StoredSums& sums) {
  std::vector<LedgerLine> out;
  for (size_t rank = 0; rank < sums.ranks.size(); ++rank) {
    const StoredSums::Rank& sum = sums.ranks[rank];
    if (sum.steps == 0) continue;
    for (size_t c = 0; c < kCategoryCount; ++c) {
      LedgerLine line{attempt, static_cast<int32_t>(rank), {static_cast<int64_t>(c)}, sum.ms[c], sum.wall_ms, {}, 0};
      if (sum.gpu_steps > 0) line.host_total_ms = sum.host_ms[c];
      line.steps = static_cast<int64_t>(sum.steps);
      out.push_back(line);
    }
  }
  return out;
}

struct SamplePoint {
  Word scope, name;
  int32_t idx = -1;
  SeriesPoint point;
};

std::vector<std::string> sorted(std::set<std::string> words) { return {words.begin(), words.end()}; }
int64_t index_of(const std::vector<std::string>& words, const std::string& word) {
  return std::ranges::lower_bound(words, word) - words.begin();
}

double after_start_s(int64_t time_ns, int64_t start_ns) {  // any int64: the file is not trusted
  return (static_cast<double>(time_ns) - static_cast<double>(start_ns)) * 1e-9;
}
double sum_ms(const LedgerNs& ledger) {
  double ns = 0;
  for (const int64_t part : ledger) ns += static_cast<double>(part);
  return ns * 1e-6;
}

}  // namespace

Source ledger_source(SharedReader reader, const StoredRun&) {
  std::vector<int32_t> attempts;
  if (reader) {
    auto found = reader->attempts();
    if (!found) return std::unexpected(found.error());
    attempts = std::move(*found);
  }
  auto fetch = [reader, attempts, at = size_t{0}]() mutable -> Result<std::optional<std::vector<LedgerLine>>> {
    if (at == attempts.size()) return std::nullopt;
    auto sums = reader->sums(attempts[at]);
    if (!sums) return std::unexpected(sums.error());
    return ledger_lines(attempts[at++], *sums);
  };
  using L = LedgerLine;
  static const std::vector<std::string> kWords(kCategoryNames.begin(), kCategoryNames.end());
  return source<L>(
      {
          column<L>("attempt", "", [](const L& l) { return l.attempt; }),
          column<L>("rank", "rank", [](const L& l) { return l.rank; }),
          with_words(column<L>("category", "", [](const L& l) { return l.category; }), kWords),
          column<L>("total_ms", "ms", [](const L& l) { return l.total_ms; }),
          column<L>("share", "share",
                    [](const L& l) { return l.wall_ms > 0 ? std::optional(l.total_ms / l.wall_ms) : std::nullopt; }),
          column<L>("host_total_ms", "ms", [](const L& l) { return l.host_total_ms; }),
          column<L>("steps", "count", [](const L& l) { return l.steps; }),
      },
      std::move(fetch));
}

Source collectives_source(SharedReader reader, const StoredRun& run) {
  using C = CollectiveStat;
  const auto ask = [name = run.name](RunReader& r) -> Result<std::vector<C>> {
    auto text = r.snapshot();
    if (!text) return std::unexpected(text.error());
    if (!*text) return std::vector<C>();
    auto summary = read_summary(**text, "the summary in the run file of " + name);
    if (!summary) return std::unexpected(summary.error());
    return std::move(summary->collectives);
  };
  return source<C>(
      {
          column<C>("group", "", [](const C& c) { return std::string_view(c.group); }),
          column<C>("op", "", [](const C& c) { return std::string_view(c.op); }),
          column<C>("ranks", "rank", [](const C& c) { return view(c.ranks); }),
          column<C>("per_step", "count", [](const C& c) { return c.per_step; }),
          column<C>("bytes_per_step", "bytes", [](const C& c) { return c.bytes_per_step; }),
          column<C>("transfer_ms", "ms", [](const C& c) { return c.transfer_ms; }),
          column<C>("wait_ms", "ms", [](const C& c) { return c.wait_ms; }),
          column<C>("bus_gb_per_s", "GB/s", [](const C& c) { return c.bus_gb_per_s; }),
      },
      one_page<C>(std::move(reader), ask));
}

Source samples_source(SharedReader reader, const StoredRun&) {
  std::vector<SeriesKey> series;
  if (reader) {
    auto found = reader->series();
    if (!found) return std::unexpected(found.error());
    series = std::move(*found);
  }
  std::set<std::string> all_scopes, all_names;
  for (const SeriesKey& key : series) all_scopes.insert(key.scope), all_names.insert(key.name);
  const std::vector<std::string> scopes = sorted(std::move(all_scopes)), names = sorted(std::move(all_names));
  using P = SamplePoint;
  auto fetch = [=, at = size_t{0}]() mutable -> Result<std::optional<std::vector<P>>> {
    if (at == series.size()) return std::nullopt;
    const SeriesKey& key = series[at++];
    auto points = reader->samples(key);
    if (!points) return std::unexpected(points.error());
    std::vector<P> page;
    page.reserve(points->size());
    const Word scope{index_of(scopes, key.scope)}, name{index_of(names, key.name)};
    for (const SeriesPoint& point : *points) page.push_back({scope, name, key.idx, point});
    return page;
  };
  return source<P>(
      {
          with_words(column<P>("scope", "", [](const P& p) { return p.scope; }), scopes),
          column<P>("idx", "", [](const P& p) { return unless_negative(p.idx); }),
          with_words(column<P>("name", "", [](const P& p) { return p.name; }), names),
          column<P>("at_s", "s", [](const P& p) { return p.point.at_s; }),
          column<P>("value", "", [](const P& p) { return p.point.value; }),
          column<P>("peak", "", [](const P& p) { return p.point.peak; }),
      },
      std::move(fetch));
}

Source findings_source(SharedReader reader, const StoredRun&) {
  using F = StoredFinding;
  return source<F>(
      {
          column<F>("attempt", "", [](const F& f) { return f.attempt; }),
          column<F>("kind", "", [](const F& f) { return std::string_view(f.kind); }),
          column<F>("severity", "", [](const F& f) { return std::string_view(f.severity); }),
          column<F>("section", "", [](const F& f) { return unless_empty(f.section); }),
          column<F>("scope", "", [](const F& f) { return unless_empty(f.scope); }),
          column<F>("ranks", "rank", [](const F& f) { return view(f.ranks); }),
          column<F>("victims", "rank", [](const F& f) { return view(f.victims); }),
          column<F>("phase", "", [](const F& f) { return unless_empty(f.phase); }),
          column<F>("cause", "", [](const F& f) { return unless_empty(f.cause); }),
          column<F>("pattern", "", [](const F& f) { return unless_empty(f.pattern); }),
          column<F>("first_step", "", [](const F& f) { return unless_negative(f.first_step); }),
          column<F>("last_step", "", [](const F& f) { return unless_negative(f.last_step); }),
          column<F>("detected_step", "", [](const F& f) { return unless_negative(f.detected_step); }),
          column<F>("opened_step", "", [](const F& f) { return unless_negative(f.opened_step); }),
          column<F>("closed_step", "", [](const F& f) { return unless_negative(f.closed_step); }),
          column<F>("cost_share", "share", [](const F& f) { return f.cost_share; }),
          column<F>("cost_seconds", "s", [](const F& f) { return f.cost_seconds; }),
          column<F>("saves_share", "share", [](const F& f) { return f.saves_share; }),
          column<F>("confidence", "share", [](const F& f) { return f.confidence; }),
          column<F>("coverage", "share", [](const F& f) { return f.coverage; }),
          column<F>("title", "", [](const F& f) { return unless_empty(f.title); }),
          column<F>("action", "", [](const F& f) { return unless_empty(f.action); }),
          column<F>("json", "", [](const F& f) { return unless_empty(f.json); }),
      },
      one_page<F>(std::move(reader), [](RunReader& r) { return r.findings(); }));
}

Source ranks_source(SharedReader reader, const StoredRun& run) {
  using R = RankLife;
  const auto seconds = [start_ns = run.start_ns](int64_t R::* time_ns) {
    return [start_ns, time_ns](const R& r) {
      return r.*time_ns == 0 ? std::nullopt : std::optional(after_start_s(r.*time_ns, start_ns));
    };
  };
  return source<R>(
      {
          column<R>("attempt", "", [](const R& r) { return r.attempt; }),
          column<R>("rank", "rank", [](const R& r) { return r.rank; }),
          column<R>("local_rank", "rank", [](const R& r) { return unless_negative(r.local_rank); }),
          column<R>("node", "", [](const R& r) { return r.node_rank; }),
          column<R>("hostname", "", [](const R& r) { return unless_empty(r.hostname); }),
          column<R>("pid", "", [](const R& r) { return r.pid; }),
          column<R>("world_size", "count", [](const R& r) { return r.world_size; }),
          column<R>("device", "", [](const R& r) { return unless_empty(r.device); }),
          column<R>("state", "", [](const R& r) { return spelling(state_of(r)); }),
          column<R>("steps", "count", [](const R& r) { return static_cast<int64_t>(r.steps); }),
          column<R>("start_s", "s", seconds(&R::process_start_ns)),
          column<R>("first_step_s", "s", seconds(&R::first_step_ns)),
          column<R>("last_step_s", "s", seconds(&R::last_step_ns)),
          column<R>("end_s", "s", seconds(&R::end_ns)),
          column<R>("startup_ms", "ms", [](const R& r) { return sum_ms(r.startup); }),
          column<R>("teardown_ms", "ms", [](const R& r) { return sum_ms(r.teardown); }),
          column<R>("exit_code", "", [](const R& r) { return unless_negative(r.exit_code); }),
          column<R>("exit_signal", "",
                    [](const R& r) { return r.exit_signal == 0 ? std::nullopt : std::optional(r.exit_signal); }),
          column<R>("exception", "", [](const R& r) { return unless_empty(r.exception); }),
          column<R>("open_phase", "", [](const R& r) { return name(r.open_phase); }),
          column<R>("device_memory_bytes", "bytes",
                    [](const R& r) {
                      return r.device_memory_bytes == 0 ? std::nullopt
                                                        : MaybeInt(static_cast<int64_t>(r.device_memory_bytes));
                    }),
          column<R>("records", "count", [](const R& r) { return static_cast<int64_t>(r.records); }),
          column<R>("lost", "count", [](const R& r) { return static_cast<int64_t>(r.lost); }),
      },
      one_page<R>(std::move(reader), [](RunReader& r) { return r.lives(); }));
}

Source groups_source(SharedReader reader, const StoredRun&) {
  using G = StoredGroup;
  return source<G>(
      {
          column<G>("attempt", "", [](const G& g) { return g.attempt; }),
          column<G>("group_id", "", [](const G& g) { return g.id; }),
          column<G>("description", "", [](const G& g) { return std::string_view(g.description); }),
          column<G>("ranks", "rank", [](const G& g) { return view(g.ranks); }),
      },
      one_page<G>(std::move(reader), [](RunReader& r) { return r.groups(); }));
}

Source events_source(SharedReader reader, const StoredRun& run) {
  using E = RunEvent;
  return source<E>(
      {
          column<E>("at_s", "s", [start_ns = run.start_ns](const E& e) { return after_start_s(e.time_ns, start_ns); }),
          column<E>("attempt", "", [](const E& e) { return unless_negative(e.attempt); }),
          column<E>("rank", "rank", [](const E& e) { return unless_negative(e.rank); }),
          column<E>("step", "", [](const E& e) { return unless_negative(e.step); }),
          column<E>("kind", "", [](const E& e) { return std::string_view(e.kind); }),
          column<E>("text", "", [](const E& e) { return std::string_view(e.text); }),
      },
      one_page<E>(std::move(reader), [](RunReader& r) { return r.events(); }));
}

}  // namespace stepscope::tables
