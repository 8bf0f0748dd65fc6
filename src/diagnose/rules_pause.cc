// Ranks that stop now and then while the others wait for them: steps in which the rank's own time stands far out of its
// usual difference to the others. PAUSE_STRAGGLER, LOGGING_STALL, or INPUT_STRAGGLER by what the time goes into;
// CHECKPOINT_STALL where a rank saves in each of them: what it does around the save has no name.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>

#include "analyze/others.h"
#include "analyze/robust.h"
#include "analyze/straggler.h"
#include "base/text_format.h"
#include "diagnose/late_rank.h"
#include "diagnose/rule.h"

namespace stepscope {

namespace {

struct Outliers {
  int rank = 0;
  double cost_ms = 0, median_ms = 0;
  std::vector<size_t> rows;  // indices into RuleInput::rows
  std::vector<double> extra_ms;
  LedgerMs by_category{};
  double gc_ms = 0;
  double involuntary = 0, cpu_ms = 0, wall_ms = 0;
  double voluntary = 0;  // beyond as many as the rank's other steps have
  bool usage = false;
  size_t saves = 0, saves_elsewhere = 0;  // pauses with a save, other steps with one
};

// What each rank spent in a category beyond the others; 0 where it was alone. By row, cell of the row and category.
std::vector<std::vector<LedgerMs>> beyond_others_ms(const RuleInput& in) {
  std::vector<std::vector<LedgerMs>> beyond;
  Others others;
  for (const StepRow* row : in.rows.rows) {
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

// Voluntary switches of a usual step; 0 where nobody told.
double usual_voluntary(const RuleInput& in, int rank) {
  std::vector<double> switches;
  for (const StepRow* row : in.rows.rows)
    if (const Cell* cell = row->find(rank); cell && cell->voluntary_switches >= 0)
      switches.push_back(cell->voluntary_switches);
  return switches.empty() ? 0 : median(std::move(switches));
}

// What the others waited for the rank because of step `i`: what it does behind its last collective they feel in the
// next.
double caused_by_step_ms(const RuleInput& in, size_t i, int rank) {
  const auto caused = [rank](const StepRow& row) {
    const Cell* cell = row.find(rank);
    return cell ? cell->caused_ms : 0.0;
  };
  const StepRow& row = *in.rows.rows[i];
  const bool next = i + 1 < in.rows.size() && in.rows.rows[i + 1]->step == row.step + 1;
  return std::max(caused(row), next ? caused(*in.rows.rows[i + 1]) : 0.0);
}

Outliers outliers_of(const RuleInput& in, const std::vector<std::vector<LedgerMs>>& beyond, int rank) {
  Outliers out;
  out.rank = rank;
  std::vector<double> d;
  std::vector<std::pair<size_t, const LedgerMs*>> seen;  // index into RuleInput::rows, beyond the others in it
  for (size_t i = 0; i < in.rows.size(); ++i) {
    const Cell* cell = in.rows.rows[i]->find(rank);
    if (!cell) continue;
    seen.push_back({i, &beyond[i][static_cast<size_t>(cell - in.rows.rows[i]->cells.data())]});
    d.push_back(std::accumulate(seen.back().second->begin(), seen.back().second->end(), 0.0));
  }
  if (d.size() < 8) return out;
  const double usual = median(d), sigma = mad_sigma(d);
  const double floor_ms = std::max(in.limits->pause_min_ms, in.limits->pause_factor * sigma);
  std::optional<double> usual_switches;  // asked for where there is a pause
  for (size_t k = 0; k < d.size(); ++k) {
    const double extra = d[k] - usual;
    const auto [i, by_category] = seen[k];
    const Cell& cell = *in.rows.rows[i]->find(rank);
    const bool saves = cell.ms[index(Category::kCheckpoint)] > 0;
    // The others must have waited for it: an excess that nobody paid for is no stall of the job.
    if (extra < floor_ms || caused_by_step_ms(in, i, rank) < in.limits->pause_paid_share * extra) {
      out.saves_elsewhere += saves;
      continue;
    }
    out.saves += saves;
    out.rows.push_back(i);
    out.extra_ms.push_back(extra);
    out.cost_ms += extra * in.rows.weights[i];
    for (size_t c = 0; c < kCategoryCount; ++c) out.by_category[c] += (*by_category)[c];
    out.gc_ms += cell.gc_ms;
    if (cell.cpu_ms >= 0) {
      out.usage = true;
      out.cpu_ms += cell.cpu_ms;
      out.involuntary += cell.involuntary_switches;
      if (!usual_switches) usual_switches = usual_voluntary(in, rank);
      out.voluntary += std::max(0.0, cell.voluntary_switches - *usual_switches);
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

Rhythm rhythm_of(const RuleInput& in, const Outliers& o) {
  std::vector<double> seconds, steps;
  for (size_t i = 1; i < o.rows.size(); ++i) {
    const StepRow &a = *in.rows.rows[o.rows[i - 1]], &b = *in.rows.rows[o.rows[i]];
    seconds.push_back(static_cast<double>(b.find(o.rank)->end_ns - a.find(o.rank)->end_ns) * 1e-9);
    steps.push_back(static_cast<double>(b.step - a.step));
  }
  Rhythm rhythm;
  if (seconds.size() < 2) return rhythm;
  const double typical = median(seconds), spread = mad_sigma(seconds) / typical;
  if (!(typical > 0 && spread < in.limits->pause_rhythm_spread)) return rhythm;
  rhythm.period_s = typical;
  rhythm.period_steps = median(steps);
  rhythm.by_time = spread < mad_sigma(steps) / rhythm.period_steps;
  return rhythm;
}

// A timer that first strikes within its first period has run from the start.
int64_t begin_of(const RuleInput& in, const Outliers& o, const Rhythm& rhythm) {
  const int64_t struck = in.rows.rows[o.rows.front()]->step;
  const bool within =
      static_cast<double>(struck - in.first_step()) < in.limits->pause_first_factor * rhythm.period_steps;
  return rhythm.by_time && within ? in.first_step() : struck;
}

Category phase_of(const Outliers& o) {
  size_t top = 0;
  for (size_t c = 0; c < kCategoryCount; ++c)
    if (o.by_category[c] > o.by_category[top]) top = c;
  return static_cast<Category>(top);
}

// These have rules of their own that see all ranks.
bool told_elsewhere(const Outliers& o, Category phase, const Thresholds& t) {
  switch (phase) {
    case Category::kCheckpoint:
    case Category::kValidation:
    case Category::kEpochStart:
    case Category::kCompile: return true;
    case Category::kHostPause: return o.gc_ms > t.pause_gc_share * o.by_category[index(phase)];
    default: return false;
  }
}

// Who waits for a lock, the GIL among them, or for a file lets its core go by itself, again and again.
Cause cause_of(const Outliers& o, Category phase, const Thresholds& t) {
  if (phase == Category::kUnattributed || phase == Category::kUserCode) return Cause::kUserCode;
  const bool descheduled = o.usage && o.involuntary > t.descheduled_switches * static_cast<double>(o.rows.size()) &&
                           o.involuntary >= o.voluntary && o.cpu_ms < t.descheduled_cpu_share * o.wall_ms;
  return descheduled ? Cause::kDescheduled : Cause::kNone;
}

// In nearly each pause the rank saves, and it saves nowhere else: a checkpoint is more than the call that writes it.
bool is_around_saves(const Outliers& o, Category phase, const Thresholds& t) {
  if (phase != Category::kUnattributed && phase != Category::kUserCode) return false;
  const auto pauses = static_cast<double>(o.rows.size());
  return static_cast<double>(o.saves) >= t.pause_save_share * pauses &&
         static_cast<double>(o.saves_elsewhere) <= (1 - t.pause_save_share) * pauses;
}

FindingBuilder stall_around_saves(const RuleInput& in, const Outliers& o, Category phase) {
  FindingBuilder f = in.finding(FindingKind::kCheckpointStall);
  f.about(o.rank).holding_up(in.others_than({o.rank})).in(phase).pattern("transient");
  f.evidence("pauses_with_save", static_cast<double>(o.saves), o.rank)
      .evidence("checkpoint_in_pauses_ms",
                o.by_category[index(Category::kCheckpoint)] / static_cast<double>(o.rows.size()), o.rank);
  return f.action(
      "The checkpoint is more than the call that saves: see what is done to it around it (gathering, compressing, "
      "hashing, "
      "syncing, copying); do less of it, less often, or in another thread or process");
}

// Without what each pause takes beyond the rank's usual time.
Reduction without_pauses(const Outliers& o, Category phase) {
  return removal_of(phase, [&o](size_t i, const Cell& cell) {
    const auto at = std::lower_bound(o.rows.begin(), o.rows.end(), i);
    const bool paused = cell.rank == o.rank && at != o.rows.end() && *at == i;
    return paused ? o.extra_ms[static_cast<size_t>(at - o.rows.begin())] : 0;
  });
}

Finding finding_of(const RuleInput& in, const Outliers& o, Category phase, double share) {
  Rows paused;
  for (size_t i : o.rows) paused.add(*in.rows.rows[i], in.rows.weights[i]);
  const bool hides = RuleInput::may_hide_later_ranks(paused, o.rank, o.cost_ms);
  const Rhythm rhythm = rhythm_of(in, o);
  const auto count = static_cast<double>(o.rows.size());
  const bool saves = is_around_saves(o, phase, *in.limits);
  FindingBuilder f = saves ? stall_around_saves(in, o, phase)
                           : late_rank(in, Lateness::kTransient, o.rank, phase, cause_of(o, phase, *in.limits));
  f.costs(share).saves(without_pauses(o, phase)).confidence(std::min(0.95, 0.6 + 0.05 * count));
  if (hides) f.graded(Severity::kInfo);
  f.from(begin_of(in, o, rhythm))
      .until(in.rows.rows[o.rows.back()]->step)
      .title(formatted("Rank {} stops for {} {} and {} wait", o.rank, format_ms(o.median_ms),
                       rhythm.period_s > 0 ? rhythm.words() : "in " + format_steps(o.rows.size()),
                       in.half_seen() ? "the others seen" : "all others"));
  if (saves) f.title_goes_on(", around its saves");
  if (hides) f.title_goes_on(", longer for ranks that were not seen or for the link");
  return f.evidence("pause_ms", o.median_ms, o.rank)
      .evidence("pauses", count, o.rank, {}, rhythm.words())
      .evidence(f->phase + "_in_pauses_ms", o.by_category[index(phase)] / count, o.rank);
}

}  // namespace

void judge_pauses(const RuleInput& in, std::vector<Finding>& out) {
  if (in.seen.size() < 2 || in.rows.size() < static_cast<size_t>(in.limits->min_steps)) return;
  std::vector<Outliers> all;
  const auto beyond = beyond_others_ms(in);
  for (int rank : in.seen) all.push_back(outliers_of(in, beyond, rank));
  const double wall = in.rows.wall_ms();
  // The two that cost most: of each its rivals' largest cost is one of them.
  double largest = 0, second = 0;
  for (const Outliers& o : all) {
    second = std::max(second, std::min(largest, o.cost_ms));
    largest = std::max(largest, o.cost_ms);
  }
  for (const Outliers& o : all) {
    if (o.rows.size() < static_cast<size_t>(in.limits->pause_min_repeats)) continue;
    // Where every rank pauses alike it is jitter or rotating load, nobody's fault.
    if (o.cost_ms < in.limits->pause_over_others * (o.cost_ms == largest ? second : largest)) continue;
    const double share = wall > 0 ? o.cost_ms / wall : 0;
    const Category phase = phase_of(o);
    if (in.severity(share) == Severity::kInfo || told_elsewhere(o, phase, *in.limits)) continue;
    out.push_back(finding_of(in, o, phase, share));
  }
}

}  // namespace stepscope
