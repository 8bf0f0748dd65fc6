#include "diagnose/run_context.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace stepscope {
namespace {

void add_once(std::vector<std::string>& list, const std::string& text) {
  if (!text.empty() && std::find(list.begin(), list.end(), text) == list.end()) list.push_back(text);
}

RankStat* rank_of(Snapshot& s, int rank) {
  const auto found = std::find_if(s.ranks.begin(), s.ranks.end(), [&](const RankStat& r) { return r.rank == rank; });
  return found == s.ranks.end() ? nullptr : &*found;
}

void lay_run(Snapshot& s, const RunInfo& told) {
  RunInfo run = told;
  run.world_size = std::max({told.world_size, s.run.world_size, s.ranks.empty() ? 0 : s.ranks.back().rank + 1});
  run.ranks_seen = s.run.ranks_seen;
  run.thresholds = std::move(s.run.thresholds);
  s.run = std::move(run);
}

void lay_observer(Snapshot& s, const ObserverStat& told) {
  ObserverStat observer = told;
  observer.coverage = s.observer.coverage;
  observer.notes = std::move(s.observer.notes);
  observer.unavailable = std::move(s.observer.unavailable);
  for (const std::string& note : told.notes) add_once(observer.notes, note);
  for (const std::string& reason : told.unavailable) add_once(observer.unavailable, reason);
  s.observer = std::move(observer);
}

int64_t ns_of(double ms) { return std::llround(ms * 1e6); }

void lay_totals(Snapshot& s, const std::vector<RankTotals>& totals) {
  if (totals.empty()) return;
  const auto ranks = static_cast<double>(
      std::count_if(totals.begin(), totals.end(), [](const RankTotals& rank) { return rank.steps > 0; }));
  s.job_ledger = {};
  for (const RankTotals& rank : totals) {
    if (rank.steps > 0)
      for (size_t c = 0; c < kCategoryCount; ++c) s.job_ledger[c] += ns_of(rank.ms[c] / ranks);
    RankStat* stat = rank_of(s, rank.rank);
    if (!stat) continue;
    stat->ledger = rank.ledger;
    stat->process_wall_ms =
        static_cast<double>(std::accumulate(rank.ledger.begin(), rank.ledger.end(), int64_t{0})) * 1e-6;
    stat->steps_wall_ms = rank.steps_wall_ms;
    stat->steps = rank.steps;
  }
}

}  // namespace

void RunContext::note(const std::string& text) { add_once(observer.notes, text); }
void RunContext::unavailable(const std::string& text) { add_once(observer.unavailable, text); }

Snapshot assemble(const Engine& engine, const RunContext& context) {
  Snapshot s = engine.snapshot();
  lay_totals(s, context.totals);
  lay_run(s, context.run);
  lay_observer(s, context.observer);
  s.system = context.system;
  s.process = context.process;
  for (const ProcessUse& use : context.processes) {
    RankStat* stat = rank_of(s, use.rank);
    if (!stat) continue;
    stat->cpu_share = use.cpu_share;
    stat->rss_peak_bytes = use.rss_peak_bytes;
    stat->uss_peak_bytes = use.uss_peak_bytes;
  }
  return s;
}

}  // namespace stepscope
