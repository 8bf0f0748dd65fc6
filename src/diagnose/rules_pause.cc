// Pauses: GC_PAUSE (garbage collection, on one rank or all) and PAUSE_STRAGGLER (one rank stops now and then and the
// others wait for it): steps in which the rank's own time stands far out of its usual difference to the others.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "analyze/others.h"
#include "analyze/robust.h"
#include "analyze/straggler.h"
#include "analyze/whatif.h"
#include "base/text_format.h"
#include "diagnose/judged.h"

namespace stepscope {

namespace {

struct Outliers {
  int rank = 0;
  double cost_ms = 0, median_ms = 0;
  std::vector<size_t> rows;  // indices into Judged::rows
  std::vector<double> extra_ms;
  LedgerMs by_category{};
  double gc_ms = 0;
  double involuntary = 0, cpu_ms = 0, wall_ms = 0;
  bool usage = false;
};

// What each rank spent in a category beyond the others; 0 where it was alone. By row, cell of the row and category.
std::vector<std::vector<LedgerMs>> beyond_others_ms(const Judged& j) {
  std::vector<std::vector<LedgerMs>> beyond;
  Others others;
  for (const StepRow* row : j.rows.rows) {
    beyond.emplace_back(row->cells.size());
    for (size_t c = 0; c < kCategoryCount; ++c) {
      if (!is_comparable(static_cast<Category>(c))) continue;
      if (std::none_of(row->cells.begin(), row->cells.end(), [c](const Cell& cell) { return cell.ms[c] != 0; }))
        continue;
      others.look(*row, [c](const Cell& cell) { return cell.ms[c]; });
      for (size_t at = 0; at < row->cells.size(); ++at) {
        const double own = row->cells[at].ms[c], theirs = others.median_without(own);
        beyond.back()[at][c] = static_cast<float>(own - (std::isnan(theirs) ? 0 : theirs));
      }
    }
  }
  return beyond;
}

// What the others waited for the rank because of step `i`: what it does behind its last collective they feel in the
// next.
double caused_by_step_ms(const Judged& j, size_t i, int rank) {
  const auto caused = [rank](const StepRow& row) {
    const Cell* cell = row.find(rank);
    return cell ? cell->caused_ms : 0.0;
  };
  const StepRow& row = *j.rows.rows[i];
  const bool next = i + 1 < j.rows.size() && j.rows.rows[i + 1]->step == row.step + 1;
  return std::max(caused(row), next ? caused(*j.rows.rows[i + 1]) : 0.0);
}

Outliers outliers_of(const Judged& j, const std::vector<std::vector<LedgerMs>>& beyond, int rank) {
  Outliers out;
  out.rank = rank;
  std::vector<double> d;
  std::vector<std::pair<size_t, const LedgerMs*>> seen;  // index into Judged::rows, beyond the others in it
  for (size_t i = 0; i < j.rows.size(); ++i) {
    const Cell* cell = j.rows.rows[i]->find(rank);
    if (!cell) continue;
    seen.push_back({i, &beyond[i][static_cast<size_t>(cell - j.rows.rows[i]->cells.data())]});
    d.push_back(std::accumulate(seen.back().second->begin(), seen.back().second->end(), 0.0));
  }
  if (d.size() < 8) return out;
  const double usual = median(d), sigma = mad_sigma(d);
  const double floor_ms = std::max(j.limits->pause_min_ms, j.limits->pause_factor * sigma);
  for (size_t k = 0; k < d.size(); ++k) {
    const double extra = d[k] - usual;
    if (extra < floor_ms) continue;
    const auto [i, by_category] = seen[k];
    const Cell& cell = *j.rows.rows[i]->find(rank);
    // The others must have waited for it: an excess that nobody paid for is no stall of the job.
    if (caused_by_step_ms(j, i, rank) < j.limits->pause_paid_share * extra) continue;
    out.rows.push_back(i);
    out.extra_ms.push_back(extra);
    out.cost_ms += extra * j.rows.weights[i];
    for (size_t c = 0; c < kCategoryCount; ++c) out.by_category[c] += (*by_category)[c];
    out.gc_ms += cell.gc_ms;
    if (cell.cpu_ms >= 0) {
      out.usage = true;
      out.cpu_ms += cell.cpu_ms;
      out.involuntary += cell.involuntary_switches;
      out.wall_ms += cell.wall_ms;
    }
  }
  out.median_ms = out.extra_ms.empty() ? 0 : median(out.extra_ms);
  return out;
}

// Regularity of the pauses: what a timer does comes again after equal times, what the loop does after equal steps.
struct Rhythm {
  double period_s = 0;  // 0: not regular in time
  double period_steps = 0;
  bool by_time = false;  // more regular in time than in steps
  std::string words() const { return period_s > 0 ? formatted("every {:.1f} s", period_s) : ""; }
};

Rhythm rhythm_of(const Judged& j, const Outliers& o) {
  std::vector<double> seconds, steps;
  for (size_t i = 1; i < o.rows.size(); ++i) {
    const StepRow &a = *j.rows.rows[o.rows[i - 1]], &b = *j.rows.rows[o.rows[i]];
    seconds.push_back(static_cast<double>(b.find(o.rank)->end_ns - a.find(o.rank)->end_ns) * 1e-9);
    steps.push_back(static_cast<double>(b.step - a.step));
  }
  Rhythm rhythm;
  if (seconds.size() < 2) return rhythm;
  const double typical = median(seconds), spread = mad_sigma(seconds) / typical;
  if (!(typical > 0 && spread < j.limits->pause_rhythm_spread)) return rhythm;
  rhythm.period_s = typical;
  rhythm.period_steps = median(steps);
  rhythm.by_time = spread < mad_sigma(steps) / rhythm.period_steps;
  return rhythm;
}

// A timer that first strikes within its first period has run from the start.
int64_t begin_of(const Judged& j, const Outliers& o, const Rhythm& rhythm) {
  const int64_t struck = j.rows.rows[o.rows.front()]->step;
  const bool within = static_cast<double>(struck - j.first_step()) < j.limits->pause_first_factor * rhythm.period_steps;
  return rhythm.by_time && within ? j.first_step() : struck;
}

void judge_gc(const Judged& j, std::vector<Finding>& out) {
  double cost_ms = 0;
  std::map<int, double> per_rank;
  int64_t first = -1, last = -1;
  size_t steps = 0;
  for (size_t i = 0; i < j.rows.size(); ++i) {
    double worst = 0;
    for (const Cell& cell : j.rows.rows[i]->cells) {
      const double ms = cell.gc_ms;
      worst = std::max(worst, ms);
      per_rank[cell.rank] += ms * j.rows.weights[i];
    }
    cost_ms += worst * j.rows.weights[i];
    if (worst < j.limits->gc_min_ms) continue;
    ++steps;
    if (first < 0) first = j.rows.rows[i]->step;
    last = j.rows.rows[i]->step;
  }
  const double wall = j.rows.wall_ms();
  const double share = wall > 0 ? cost_ms / wall : 0;
  if (j.severity(share) == Severity::kInfo || steps < static_cast<size_t>(j.limits->pause_min_repeats)) return;
  Finding f = Finding::of(FindingKind::kGcPause);
  f.severity = j.severity(share);
  f.phase = "host_pause";
  f.cause = Cause::kGc;
  f.cost_share = share;
  f.cost_seconds = j.seconds(share);
  f.saves_share = saved_share(j.rows, [&](size_t, const Cell& cell) {
    LedgerMs cut{};
    cut[index(Category::kHostPause)] = cell.gc_ms;
    return cut;
  });
  f.coverage = j.coverage;
  f.confidence = 0.95;
  f.first_step = first;
  f.last_step = last;
  double most = 0;
  for (const auto& [rank, ms] : per_rank) most = std::max(most, ms);
  for (const auto& [rank, ms] : per_rank)
    if (ms > j.limits->gc_rank_share * most) f.ranks.push_back(rank);
  if (j.others_than(f.ranks).empty()) {
    f.ranks.clear();
    f.job_scope = true;
  }
  f.title = formatted("Python's garbage collection stops {} for {} of the time",
                      f.job_scope ? std::string("training") : format_ranks(f.ranks), format_percent(share));
  f.action = "Collect at fixed steps on all ranks (gc.disable, gc.collect every N steps), or gc.freeze() after warm-up";
  f.evidence.push_back({"gc_ms_per_affected_step", {}, steps ? cost_ms / static_cast<double>(steps) : 0, {}, ""});
  f.evidence.push_back({"affected_steps", {}, static_cast<double>(steps), {}, ""});
  out.push_back(std::move(f));
}

}  // namespace

void judge_pauses(const Judged& j, std::vector<Finding>& out) {
  if (j.rows.size() < static_cast<size_t>(j.limits->min_steps)) return;
  judge_gc(j, out);
  if (j.seen.size() < 2) return;
  std::vector<Outliers> all;
  const auto beyond = beyond_others_ms(j);
  for (int rank : j.seen) all.push_back(outliers_of(j, beyond, rank));
  const double wall = j.rows.wall_ms();
  // The two that cost most: of each its rivals' largest cost is one of them.
  double largest = 0, second = 0;
  for (const Outliers& o : all) {
    second = std::max(second, std::min(largest, o.cost_ms));
    largest = std::max(largest, o.cost_ms);
  }
  for (const Outliers& o : all) {
    if (o.rows.size() < static_cast<size_t>(j.limits->pause_min_repeats)) continue;
    // Where every rank pauses alike it is jitter or rotating load, nobody's fault.
    if (o.cost_ms < j.limits->pause_over_others * (o.cost_ms == largest ? second : largest)) continue;
    const double share = wall > 0 ? o.cost_ms / wall : 0;
    if (j.severity(share) == Severity::kInfo) continue;
    size_t top = 0;
    for (size_t c = 0; c < kCategoryCount; ++c)
      if (o.by_category[c] > o.by_category[top]) top = c;
    const auto phase = static_cast<Category>(top);
    // These have rules of their own that see all ranks.
    if (phase == Category::kCheckpoint || phase == Category::kValidation || phase == Category::kEpochStart ||
        phase == Category::kCompile)
      continue;
    if (phase == Category::kHostPause && o.gc_ms > j.limits->pause_gc_share * o.by_category[top]) continue;
    Finding f = Finding::of(phase == Category::kInputWait ? FindingKind::kInputStraggler
                            : phase == Category::kLogging ? FindingKind::kLoggingStall
                                                          : FindingKind::kPauseStraggler);
    Rows paused;
    for (size_t i : o.rows) paused.add(*j.rows.rows[i], j.rows.weights[i]);
    const bool hides = Judged::may_hide_later_ranks(paused, o.rank, o.cost_ms);
    f.severity = hides ? Severity::kInfo : j.severity(share);
    f.ranks = {o.rank};
    f.victims = j.others_than({o.rank});
    f.phase = std::string(name(phase));
    f.pattern = "transient";
    const bool descheduled = o.usage &&
                             o.involuntary > j.limits->descheduled_switches * static_cast<double>(o.rows.size()) &&
                             o.cpu_ms < j.limits->descheduled_cpu_share * o.wall_ms;
    if (phase == Category::kUnattributed || phase == Category::kUserCode)
      f.cause = Cause::kUserCode;
    else if (descheduled)
      f.cause = Cause::kDescheduled;
    f.cost_share = share;
    f.cost_seconds = j.seconds(share);
    f.saves_share = saved_share(j.rows, [&](size_t i, const Cell& cell) {
      LedgerMs cut{};
      if (cell.rank != o.rank) return cut;
      const auto at = std::lower_bound(o.rows.begin(), o.rows.end(), i);
      if (at != o.rows.end() && *at == i)
        cut[top] = static_cast<float>(o.extra_ms[static_cast<size_t>(at - o.rows.begin())]);
      return cut;
    });
    f.coverage = j.coverage;
    f.confidence = std::min(0.95, 0.6 + 0.05 * static_cast<double>(o.rows.size()));
    const Rhythm rhythm = rhythm_of(j, o);
    f.first_step = begin_of(j, o, rhythm);
    f.last_step = j.rows.rows[o.rows.back()]->step;
    f.title = formatted("Rank {} stops for {} {} and {} wait", o.rank, format_ms(o.median_ms),
                        rhythm.period_s > 0 ? rhythm.words() : formatted("in {} steps", o.rows.size()),
                        j.half_seen() ? "the others seen" : "all others");
    if (hides) f.title += ", longer for ranks that were not seen or for the link";
    f.action = f.cause == Cause::kDescheduled
                   ? "Something takes this rank's core: bind ranks to cores, look for other processes"
                   : "Look for blocking work on this rank only: logging, uploads, file writes, prints";
    f.evidence.push_back({"pause_ms", o.rank, o.median_ms, {}, ""});
    f.evidence.push_back({"pauses", o.rank, static_cast<double>(o.rows.size()), {}, rhythm.words()});
    f.evidence.push_back(
        {f.phase + "_in_pauses_ms", o.rank, o.by_category[top] / static_cast<double>(o.rows.size()), {}, ""});
    out.push_back(std::move(f));
  }
}

}  // namespace stepscope
