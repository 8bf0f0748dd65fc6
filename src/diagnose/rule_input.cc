#include "diagnose/rule_input.h"

#include <cmath>

#include "analyze/robust.h"
#include "base/text_format.h"

namespace stepscope {

namespace {

std::function<double(const Cell&)> time_in(Category category) {
  return [category](const Cell& cell) { return static_cast<double>(cell.ms[index(category)]); };
}

}  // namespace

double RuleInput::of_row(const StepRow& row, const std::function<double(const Cell&)>& figure) {
  std::vector<double> values;
  for (const Cell& cell : row.cells) values.push_back(figure(cell));
  return values.empty() ? std::nan("") : lower_median(values);
}

std::vector<double> RuleInput::shares(const std::function<double(const Cell&)>& figure) const {
  std::map<int, std::pair<double, double>> sums;  // by rank: the figure's, wall time's
  for (size_t i = 0; i < rows.size(); ++i) {
    const StepRow& row = *rows.rows[i];
    for (const Cell& cell : row.cells) {
      auto& [own, wall] = sums[cell.rank];
      own += figure(cell) * rows.weights[i];
      wall += static_cast<double>(cell.wall_ms) * rows.weights[i];
    }
  }
  std::vector<double> out;
  for (const auto& [rank, sum] : sums)
    if (sum.second > 0) out.push_back(sum.first / sum.second);
  return out;
}

double RuleInput::share_of_job(const std::function<double(const Cell&)>& figure) const {
  const std::vector<double> list = shares(figure);
  return list.empty() ? 0 : lower_median(list);
}
double RuleInput::share_of_job(Category category) const { return share_of_job(time_in(category)); }

double RuleInput::per_step_ms_by_row(const std::function<double(const StepRow&)>& figure) const {
  std::vector<double> values;
  for (const StepRow* row : baseline.empty() ? rows.rows : baseline.rows)
    if (const double value = figure(*row); !std::isnan(value)) values.push_back(value);
  return values.empty() ? 0 : mean(values);
}
double RuleInput::per_step_ms(const std::function<double(const Cell&)>& figure) const {
  return per_step_ms_by_row([&](const StepRow& row) { return of_row(row, figure); });
}
double RuleInput::per_step_ms(Category category) const { return per_step_ms(time_in(category)); }

FindingBuilder RuleInput::of_job(FindingKind kind, Category category, double share, Severity severity) const {
  return of_job(kind, category, share, severity, time_in(category));
}

FindingBuilder RuleInput::of_job(FindingKind kind, Category category, double share, Severity severity,
                                 const std::function<double(const Cell&)>& figure, size_t late) const {
  return of_job_by_row(kind, category, share, severity, [&](const StepRow& row) { return of_row(row, figure); }, late);
}

FindingBuilder RuleInput::of_job_by_row(FindingKind kind, Category category, double share, Severity severity,
                                        const std::function<double(const StepRow&)>& figure, size_t late) const {
  const double ms = per_step_ms_by_row(figure);
  const std::string phase(name(category));
  FindingBuilder f = finding(kind);
  f.about_job().in(category).on_steps_clock().costs(share).graded(severity).until(last_step());
  f.from(onset(limits->onset_share * ms, figure, late));
  f.confidence(std::min(0.99, coverage * (rows.size() >= 32 ? 0.97 : 0.85)));
  return f.evidence(phase + "_share", share).evidence(phase + "_ms_per_step", ms);
}

std::vector<int> RuleInput::others_than(const std::vector<int>& listed) const {
  std::vector<int> others;
  for (int rank : seen)
    if (std::find(listed.begin(), listed.end(), rank) == listed.end()) others.push_back(rank);
  return others;
}

bool RuleInput::may_hide_later_ranks(const Rows& rows, int rank, double lost_ms) {
  double caused_ms = 0, unsure_ms = 0, behind_ms = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const Cell* cell = rows.rows[i]->find(rank);
    if (!cell) continue;
    caused_ms += cell->caused_ms * rows.weights[i];
    unsure_ms += cell->caused_unsure_ms * rows.weights[i];
    behind_ms += cell->ms[index(Category::kUnresolved)] * rows.weights[i];
  }
  return 2 * unsure_ms > caused_ms && behind_ms >= lost_ms;
}

CoreSharing RuleInput::core_sharing() const {
  CoreSharing out;
  if (!lives) return out;
  std::map<std::string, size_t> known;
  for (const auto& [rank, life] : *lives) {
    if (life.hostname.empty()) continue;
    const auto [at, fresh] = known.try_emplace(life.hostname, out.hosts.size());
    if (fresh) {
      CoreSharing::Host& host = out.hosts.emplace_back();
      if (loads && loads->contains(life.hostname)) host.load = loads->at(life.hostname);
    }
    out.add(rank, at->second);
  }
  return out;
}

double RuleInput::slowdown_by_others(const std::vector<int>& ranks) const {
  if (on_device() || ranks.empty()) return 0;
  const CoreSharing sharing = core_sharing();
  double least = 1;
  for (const int rank : ranks) least = std::min(least, sharing.slowdown_by_others(rank));
  return least;
}

std::vector<OpenStep> RuleInput::overdue_steps() const {
  std::vector<double> walls;
  for (const StepRow* row : with_warmup.rows) walls.push_back(row->wall_ms * 1e-3);
  if (walls.empty()) return {};
  const double longest_s = *std::max_element(walls.begin(), walls.end());
  const double least_s =
      std::max({limits->standstill_s, limits->standstill_steps * median(std::move(walls)), longest_s});
  // Others wait for a rank that is at it.
  const bool pauses = std::any_of(lives->begin(), lives->end(), [](const auto& life) {
    return !life.second.teardown_begun && takes_long_by_nature(life.second.open_phase);
  });
  const double limit_s = pauses ? std::max(least_s, limits->standstill_pause_s) : least_s;
  std::vector<OpenStep> out;
  for (const auto& [rank, life] : *lives) {
    const bool left = life.teardown_begun || (life.ended && life.clean_exit && !life.stopped);
    if (left || life.steps == 0 || life.last_step_ns == 0) continue;
    int64_t until_ns = life.ended ? life.end_ns : now_ns;
    if (interrupted_ns > 0) until_ns = std::min(until_ns, interrupted_ns);
    const double open_s = static_cast<double>(until_ns - life.last_step_ns) * 1e-9;
    if (open_s > limit_s) out.push_back({rank, life.steps, open_s, life.open_phase});
  }
  return out;
}

Severity RuleInput::severity(double share) const {
  if (host)
    return share >= host_limits->cost_crit_share   ? Severity::kCrit
           : share >= host_limits->cost_warn_share ? Severity::kWarn
                                                   : Severity::kInfo;
  return share >= limits->crit_share   ? Severity::kCrit
         : share >= limits->warn_share ? Severity::kWarn
                                       : Severity::kInfo;
}

Severity RuleInput::share_severity(double share) const {
  return share >= limits->share_kind_crit   ? Severity::kCrit
         : share >= limits->share_kind_warn ? Severity::kWarn
                                            : Severity::kInfo;
}

bool RuleInput::on_device() const {
  return std::any_of(rows.rows.begin(), rows.rows.end(), [](const StepRow* row) {
    return std::any_of(row->cells.begin(), row->cells.end(), [](const Cell& cell) { return cell.gpu; });
  });
}

int64_t RuleInput::first_step() const { return with_warmup.empty() ? -1 : with_warmup.rows.front()->step; }
int64_t RuleInput::last_step() const { return with_warmup.empty() ? -1 : with_warmup.rows.back()->step; }

bool is_compute(Category category) {
  return std::find(kLaunchPhases.begin(), kLaunchPhases.end(), category) != kLaunchPhases.end();
}

}  // namespace stepscope
