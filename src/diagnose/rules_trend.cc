// STEP_TIME_CHANGE, STEP_TIME_DRIFT, STEP_TIME_JITTER: the steps of the whole job take longer than those before, or
// than most. RuleInput on own time (waiting for other ranks left out) of the lower median over ranks, so that one slow
// rank is no trend; steps with an event of their own (compile, checkpoint, validation, epoch start) are left out.
//
// Cause by evidence: more_work where the batches (analyze/batch_size.h) grew with the time, the time follows their
// size from step to step, or more tensors are trained since then; host_slower where everything that the host does grew
// alike (analyze/spread.h), which no change of the program does; else it is not known.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <tuple>
#include <utility>

#include "analyze/batch_size.h"
#include "analyze/correlation.h"
#include "analyze/robust.h"
#include "analyze/spread.h"
#include "analyze/straggler.h"
#include "analyze/trend.h"
#include "base/text_format.h"
#include "diagnose/rule.h"

namespace stepscope {

namespace {

constexpr size_t kLevelSteps = 32;
constexpr size_t kNearSteps = 3;  // of a change, that comes with it

double own_ms(const Cell& cell) { return cell.own_ms(); }

std::vector<double> series(const Rows& rows, const std::function<double(const Cell&)>& figure) {
  std::vector<double> values;
  for (const StepRow* row : rows.rows) values.push_back(RuleInput::of_row(*row, figure));
  return values;
}

// Medians of a figure before a row and from it on; of a drift over the first and the last quarter.
std::pair<double, double> levels(const Rows& rows, const Trend& trend,
                                 const std::function<double(const Cell&)>& figure) {
  const std::vector<double> values = series(rows, figure);
  const size_t n = values.size(), left = trend.drifts ? n / 4 : trend.from,
               right = trend.drifts ? n - n / 4 : trend.from;
  std::vector<double> before, after;
  for (size_t i = 0; i < n; ++i) {
    if (std::isnan(values[i])) continue;
    if (i < left) before.push_back(values[i]);
    if (i >= right) after.push_back(values[i]);
  }
  if (before.empty() || after.empty()) return {0, 0};
  return {median(std::move(before)), median(std::move(after))};
}

PhaseLevels phase_levels(const Rows& rows, const Trend& trend) {
  PhaseLevels all;
  for (size_t c = 0; c < kCategoryCount; ++c)
    std::tie(all.before_ms[c], all.after_ms[c]) =
        levels(rows, trend, [c](const Cell& cell) { return static_cast<double>(cell.ms[c]); });
  return all;
}

// Others may have the host's caches, clock and memory: a slower machine is not excluded.
bool shares_host(const RuleInput& in) {
  return in.loads != nullptr && std::any_of(in.loads->begin(), in.loads->end(),
                                            [](const auto& load) { return load.second.others_are_noticed(); });
}

// Steps that took longer because of the machine, or may have: all of the host's work did, or the model's compute did
// and others were on the host.
bool of_the_machine(const RuleInput& in, Spread spread) {
  return !in.on_device() && (spread == Spread::kAll || (spread == Spread::kCompute && shares_host(in)));
}

// The host took longer by no more than what runs beside it on the same core makes it: a virtual machine's neighbours
// are not seen from inside. A burst of theirs moves any phase, and what lasts moves the model's compute alike.
bool may_be_a_neighbour(const RuleInput& in, Spread spread, double share, double since_ms) {
  if (in.on_device() || share >= in.limits->trend_passing_share) return false;
  return since_ms < 1e3 * (spread == Spread::kCompute ? in.limits->trend_passing_s : in.limits->trend_young_s);
}

double ms_from(const Rows& rows, size_t from) {
  double ms = 0;
  for (size_t i = from; i < rows.size(); ++i) ms += rows.weights[i] * rows.rows[i]->wall_ms;
  return ms;
}

constexpr const char* kMachineAction =
    "Look at the machine rather than the program: other programs on the host, clock speed (power, heat), a virtual "
    "machine's neighbours";

struct Moved {
  Category category = Category::kUnattributed;
  double before_ms = 0, after_ms = 0;
  double by() const { return after_ms - before_ms; }
};

// The category of own time that grew most.
Moved most_moved(const PhaseLevels& levels) {
  Moved most;
  for (size_t c = 0; c < kCategoryCount; ++c) {
    const auto category = static_cast<Category>(c);
    if (is_of_stalls(category)) continue;
    if (const Moved moved{category, levels.before_ms[c], levels.after_ms[c]}; moved.by() > most.by()) most = moved;
  }
  return most;
}

// The size of a step's batch, the best that is known of every rank in every step; 0 where nothing is.
using Size = std::function<double(const Cell&)>;
const BatchSize* counted_by(const Rows& rows) {
  for (const BatchSize& batch : kBatchSizes) {
    const auto field = batch.size;
    const bool known = std::all_of(rows.rows.begin(), rows.rows.end(), [&](const StepRow* row) {
      return std::all_of(row->cells.begin(), row->cells.end(), [&](const Cell& cell) { return cell.*field > 0; });
    });
    if (known) return &batch;
  }
  return nullptr;
}

Size batch_size(const Rows& rows) {
  const BatchSize* batch = counted_by(rows);
  if (!batch) return [](const Cell&) { return 0.0; };
  return [field = batch->size](const Cell& cell) { return cell.*field; };
}

// What no loader hands out and no program tells, the program gathers itself: a history, edges, a memory.
bool gathered_by_program(const Rows& rows) {
  const BatchSize* batch = counted_by(rows);
  return batch && batch->size == &Cell::input_elements;
}

// How many times as large the batches have become; NaN where nobody counts them.
double batch_factor(const Rows& rows, const Trend& trend) {
  const auto [before, after] = levels(rows, trend, batch_size(rows));
  return before > 0 && after > 0 ? after / before : std::nan("");
}

// From one step on the optimizers train more tensors, so many that they account for the time: layers were unfrozen, or
// came into the model. A few that are met for the first time (an expert, a rare branch) explain nothing.
std::optional<std::pair<double, double>> more_trained(const Rows& rows, const Trend& trend, double least_share) {
  const auto tensors = [](const Cell& cell) { return static_cast<double>(cell.trained_tensors); };
  if (trend.drifts) return std::nullopt;
  const auto [before, after] = levels(rows, trend, tensors);
  const size_t left = trend.from >= kNearSteps ? trend.from - kNearSteps : 0,
               right = std::min(trend.from + kNearSteps, rows.size() - 1);
  const bool there = RuleInput::of_row(*rows.rows[left], tensors) < RuleInput::of_row(*rows.rows[right], tensors);
  const double grown = before > 0 ? after / before - 1 : 0, slower = trend.after / trend.before - 1;
  return there && grown > 0 && grown >= least_share * slower ? std::optional(std::pair(before, after)) : std::nullopt;
}

// Lengths that vary from step to step explain steps that do: how well the time goes with the size, where both are
// known.
double size_correlation(const std::vector<double>& ms, const std::vector<double>& sizes) {
  std::vector<double> known_ms, known_size;
  for (size_t i = 0; i < ms.size(); ++i) {
    if (!std::isfinite(ms[i]) || !(sizes[i] > 0)) continue;
    known_ms.push_back(ms[i]);
    known_size.push_back(sizes[i]);
  }
  return known_ms.size() > 2 ? correlation(known_ms, known_size) : 0;
}

FindingBuilder begun(const RuleInput& in, FindingKind kind, double cost) {
  FindingBuilder f = in.finding(kind);
  f.about_job().on_steps_clock().costs(cost).throughout();
  return f;
}

void judge_trend(const RuleInput& in, std::vector<Finding>& out) {
  const std::vector<double> values = series(in.baseline, own_ms);
  const auto trend = trend_of(values, {.min_share = in.limits->trend_min_share,
                                       .min_sigmas = in.limits->trend_min_sigmas,
                                       .min_tau = in.limits->trend_min_tau});
  if (!trend || trend->after <= trend->before) return;
  const PhaseLevels phases = phase_levels(in.baseline, *trend);
  const Spread spread = spread_of(phases, in.limits->trend_alike_share);
  const double by = trend->after - trend->before;
  const bool alike = spread != Spread::kSome && !in.on_device();
  if (alike && by < in.limits->trend_alike_min_share * trend->before) return;
  // The longer a run goes on after a change, the more of it is the new pace: the excess over the old one stays its
  // cost. How much it matters is what the steps lose now.
  FindingBuilder f =
      begun(in, trend->drifts ? FindingKind::kStepTimeDrift : FindingKind::kStepTimeChange, trend->excess_share);
  if (in.severity(by / trend->after) != Severity::kInfo) f.at_least(Severity::kWarn);
  f.pattern(trend->drifts ? "drifting" : "").confidence(in.coverage * (1 - 1 / std::max(2.0, trend->sigmas)));
  if (!trend->drifts) f.from(in.baseline.rows[trend->from]->step);
  const Moved moved = most_moved(phases);
  std::string where;
  if (spread == Spread::kAll && alike) {
    where = ", in all phases alike";
  } else if (moved.by() >= in.limits->trend_phase_share * by) {
    f.in(moved.category);
    where = formatted(", in {}", f->phase);
    f.evidence(f->phase + "_ms_before", moved.before_ms);
    f.evidence(f->phase + "_ms_after", moved.after_ms);
  }
  f.evidence("step_own_ms_before", trend->before).evidence("step_own_ms_after", trend->after);
  f.title(trend->drifts
              ? formatted("Steps have become {} longer little by little, {} to {}{}",
                          format_percent(by / trend->before), format_ms(trend->before), format_ms(trend->after), where)
              : formatted("Steps take {} longer since step {}, {} instead of {}{}", format_percent(by / trend->before),
                          f->first_step, format_ms(trend->after), format_ms(trend->before), where));
  const double since_ms = ms_from(in.baseline, trend->from);
  const bool passes = since_ms < 1e3 * in.limits->trend_passing_s;
  const bool settles = trend->drifts && since_ms < 1e3 * in.limits->trend_drift_s &&
                       by < in.limits->trend_settling_share * trend->before;
  if (settles || may_be_a_neighbour(in, spread, by / trend->before, since_ms)) f.graded(Severity::kInfo);
  const double batches = batch_factor(in.baseline, *trend);
  if (!std::isnan(batches)) f.evidence("batch_growth_factor", batches);
  const double with_size = size_correlation(values, series(in.baseline, batch_size(in.baseline)));
  const bool grown = batches - 1 >= in.limits->trend_work_share * by / trend->before;
  if (grown || with_size >= in.limits->trend_size_correlation) {
    // Sizes that vary, or grow little by little, are the data's, unless the program gathers what grows; batches that
    // are others from one step on were changed, which costs no more than was asked for.
    const bool gathered = trend->drifts && grown && gathered_by_program(in.baseline);
    f.graded((trend->drifts && !gathered) || !grown ? Severity::kInfo : std::min(f->severity, Severity::kWarn));
    f.caused_by(Cause::kMoreWork).evidence("size_correlation", with_size);
    f.title_goes_on(batches > 1 ? formatted("; batches are {:.1f} times as large", batches)
                                : std::string("; the time goes with the batches' size"));
    f.action(gathered ? "See what the program gathers from step to step and hands to the model (a history, edges, a "
                        "memory): bound it, or sample from it; where it grows on purpose, compare the time per element"
                      : "Nothing is wrong with the machine: the batches have grown; compare time per token or sample");
  } else if (const auto trained = more_trained(in.baseline, *trend, in.limits->trend_work_share)) {
    f.graded(Severity::kInfo)
        .caused_by(Cause::kMoreWork)
        .evidence("trained_tensors", trained->second, std::nullopt, trained->first)
        .title_goes_on(formatted("; {:.0f} tensors are trained instead of {:.0f}", trained->second, trained->first))
        .action(
            "Nothing is wrong with the machine: layers were unfrozen, or came into the model, and their backward "
            "and optimizer take this time");
  } else if (of_the_machine(in, spread)) {
    if (passes) f.graded(Severity::kInfo);
    if (spread == Spread::kAll) f.caused_by(Cause::kHostSlower);
    f.action(kMachineAction);
  } else if (trend->drifts) {
    f.action(
        "Look for what grows with the steps: hooks or callbacks that are added again, lists that are kept, retained "
        "graphs, "
        "a cache; compare a profile of an early and a late step");
  } else {
    f.action(
        "See what changed at this step: a schedule of the program (unfreezing, sequence length, logging), or a "
        "neighbour on the host");
  }
  out.push_back(f);
}

double forwards(const Cell& cell) { return cell.forwards; }

// The level around each value: the median of its block of steps. A step is slow beside its neighbours; that a run has
// several levels is a change, not jitter.
std::vector<double> usual_levels(const std::vector<double>& values) {
  const size_t blocks = std::max<size_t>(1, values.size() / kLevelSteps);
  std::vector<double> levels;
  for (size_t b = 0; b < blocks; ++b) {
    std::vector<double> known;
    const size_t end = (b + 1) * values.size() / blocks;
    for (size_t i = levels.size(); i < end; ++i)
      if (!std::isnan(values[i])) known.push_back(values[i]);
    levels.resize(end, known.empty() ? std::nan("") : median(std::move(known)));
  }
  return levels;
}

// From how many times its level on a step is a slow one: where steps differ widely by what they compute, the long ones
// are no outliers.
double slow_from(const RuleInput& in, const std::vector<double>& values, const std::vector<double>& usual) {
  std::vector<double> ratios;
  for (size_t i = 0; i < values.size(); ++i)
    if (!std::isnan(values[i]) && usual[i] > 0) ratios.push_back(values[i] / usual[i]);
  return ratios.empty() ? in.limits->jitter_factor
                        : std::max(in.limits->jitter_factor, 1 + in.limits->jitter_min_spreads * mad_sigma(ratios));
}

// The means of all categories over these steps.
std::array<double, kCategoryCount> mean_levels(const std::vector<const StepRow*>& rows) {
  std::array<double, kCategoryCount> mean_ms{};
  for (const StepRow* row : rows)
    for (size_t c = 0; c < kCategoryCount; ++c)
      mean_ms[c] += RuleInput::of_row(*row, [c](const Cell& cell) { return static_cast<double>(cell.ms[c]); });
  for (double& ms : mean_ms) ms /= static_cast<double>(std::max<size_t>(1, rows.size()));
  return mean_ms;
}

// Single slow steps that all ranks have alike, in their compute: pauses and events have kinds of their own.
void judge_jitter(const RuleInput& in, std::vector<Finding>& out) {
  const std::vector<double> values = series(in.baseline, [](const Cell& cell) { return compute_ms(cell.ms); });
  const auto known =
      static_cast<size_t>(std::count_if(values.begin(), values.end(), [](double v) { return !std::isnan(v); }));
  if (known < 2 * static_cast<size_t>(in.limits->min_steps)) return;
  const std::vector<double> usual = usual_levels(values);
  const double factor_from = slow_from(in, values, usual);
  const Size size = batch_size(in.baseline);
  double lost = 0, sum = 0;
  std::vector<const StepRow*> slow, others;
  std::vector<double> compute, usual_there, batches_slow, batches_others, forwards_slow, forwards_others;
  for (size_t i = 0; i < in.baseline.size(); ++i) {
    const StepRow* row = in.baseline.rows[i];
    const double weight = in.baseline.weights[i];
    sum += weight * row->wall_ms;
    if (std::isnan(values[i])) continue;
    const bool is_slow = values[i] >= factor_from * usual[i];
    (is_slow ? slow : others).push_back(row);
    (is_slow ? batches_slow : batches_others).push_back(RuleInput::of_row(*row, size));
    (is_slow ? forwards_slow : forwards_others).push_back(RuleInput::of_row(*row, forwards));
    if (!is_slow) continue;
    lost += weight * (values[i] - usual[i]);
    compute.push_back(values[i]);
    usual_there.push_back(usual[i]);
  }
  const double share = sum > 0 ? lost / sum : 0;
  // Where it is in every other step it is a part of them; one step alone is an accident.
  if (in.severity(share) == Severity::kInfo || slow.size() < static_cast<size_t>(in.limits->pause_min_repeats) ||
      2 * slow.size() > known)
    return;
  const Spread spread = spread_of({mean_levels(others), mean_levels(slow)}, in.limits->trend_alike_share);
  FindingBuilder f = begun(in, FindingKind::kStepTimeJitter, share);
  f.pattern("transient")
      .from(slow.front()->step)
      .until(slow.back()->step)
      .confidence(0.9 * in.coverage)
      .title(formatted("{} steps compute for {} instead of {}, on all ranks alike: {} of the time", slow.size(),
                       format_ms(median(compute)), format_ms(median(usual_there)), format_percent(share)))
      .evidence("affected_steps", static_cast<double>(slow.size()))
      .evidence("compute_ms", median(compute), {}, median(usual_there));
  const double factor = batches_others.empty() ? std::nan("") : median(batches_slow) / median(batches_others);
  if (std::isfinite(factor)) f.evidence("batch_growth_factor", factor);
  if (factor >= 1 + in.limits->trend_work_share * (in.limits->jitter_factor - 1)) {
    f.caused_by(Cause::kMoreWork).graded(Severity::kInfo);  // the work is the data's
    f.title_goes_on(formatted("; their batches are {:.1f} times as large", factor))
        .action("Sort or bucket samples by length, so that batches are alike");
  } else if (const auto [more, usual_runs] = std::pair{median(forwards_slow), median(forwards_others)};
             usual_runs > 0 && more > usual_runs) {
    f.caused_by(Cause::kMoreWork).graded(Severity::kInfo);
    f.evidence("forwards", more, {}, usual_runs)
        .title_goes_on(formatted("; they run the model {:.3g} times instead of {:.3g}", more, usual_runs))
        .action(
            "The loop does more in these steps (a rollout, a teacher, a term of the loss that is not in all of them): "
            "see "
            "whether it has to");
  } else if (of_the_machine(in, spread) ||
             median(compute) / median(usual_there) - 1 <= in.slowdown_by_others(in.seen)) {
    f.graded(Severity::kInfo).action(kMachineAction);
    if (spread == Spread::kAll) f.caused_by(Cause::kHostSlower).title_goes_on(", in all phases alike");
  } else {
    f.action("See what these steps have in common: their data, a branch of the model, or a neighbour on the host");
  }
  out.push_back(f);
}

}  // namespace

void judge_trends(const RuleInput& in, std::vector<Finding>& out) {
  if (in.baseline.size() < static_cast<size_t>(in.limits->min_steps)) return;
  judge_trend(in, out);
  judge_jitter(in, out);
}

}  // namespace stepscope
