#include "report/compare.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "base/text_format.h"
#include "report/evidence_table.h"
#include "report/figures.h"

namespace stepscope {
namespace {

using Maybe = std::optional<double>;

Maybe finite(Maybe value) { return value && std::isfinite(*value) ? value : std::nullopt; }

// Relative change of a positive figure.
Maybe change_of(Maybe a, Maybe b) {
  if (!finite(a) || !finite(b) || !(*a > 0)) return std::nullopt;
  return (*b - *a) / *a;
}

// Standard error of the median step, ms.
Maybe median_error(const Snapshot& s) {
  if (!finite(s.wall_ms.p50) || !finite(s.wall_ms.p90) || s.steps_analyzed == 0) return std::nullopt;
  const double sigma = std::max(0.0, *s.wall_ms.p90 - *s.wall_ms.p50) / 1.2816;
  const double independent = std::clamp(s.steps_analyzed / 4.0, 1.0, kMaxIndependentSteps);
  return 1.2533 * sigma / std::sqrt(independent);
}

Maybe noise_of(const Snapshot& a, const Snapshot& b) {
  const Maybe error_a = median_error(a), error_b = median_error(b);
  if (!error_a || !error_b || !(*a.wall_ms.p50 > 0)) return std::nullopt;
  return 3 * std::sqrt(*error_a * *error_a + *error_b * *error_b) / *a.wall_ms.p50;
}

// `worse` is +1 where more is worse, -1 where more is better.
Outcome judged(const ComparedFigure& f, double least_change, int worse) {
  if (!f.change || !f.noise) return Outcome::kInconclusive;
  const double size = std::fabs(*f.change);
  if (size >= least_change && size > *f.noise)
    return *f.change * worse > 0 ? Outcome::kRegression : Outcome::kImprovement;
  return size < least_change && *f.noise <= least_change ? Outcome::kSame : Outcome::kInconclusive;
}

ComparedFigure figure(std::string name, Maybe a, Maybe b, Maybe noise, double least_change, int worse) {
  ComparedFigure f{.name = std::move(name), .a = finite(a), .b = finite(b), .change = change_of(a, b), .noise = noise};
  f.outcome = judged(f, least_change, worse);
  return f;
}

void add_phases(const Snapshot& a, const Snapshot& b, Comparison& out) {
  std::vector<std::string> phases;
  for (const Snapshot* s : {&a, &b}) {
    for (const PhaseStat& p : ordered_phases(*s)) {
      if (std::find(phases.begin(), phases.end(), p.phase) == phases.end()) phases.push_back(p.phase);
    }
  }
  std::stable_sort(phases.begin(), phases.end(),
                   [](const auto& x, const auto& y) { return phase_order(x) < phase_order(y); });
  const auto median_in = [](const Snapshot& s, const std::string& phase) -> Maybe {
    for (const PhaseStat& p : s.phases) {
      if (p.phase == phase) return p.median_ms;
    }
    return std::nullopt;
  };
  // A phase has no percentiles of its own: shown without a judgement, the step decides.
  for (const std::string& phase : phases) {
    out.figures.push_back(figure(phase + "_ms", median_in(a, phase), median_in(b, phase), std::nullopt, 0, 1));
  }
}

template <class T>
Maybe worst_of(const std::vector<T>& items, Maybe T::* field) {
  Maybe most;
  for (const T& item : items) {
    const Maybe value = finite(item.*field);
    if (value && (!most || *value > *most)) most = value;
  }
  return most;
}

void add_memory(const Snapshot& a, const Snapshot& b, Comparison& out) {
  const auto add = [&](const char* label, Maybe x, Maybe y) {
    if (x || y) out.figures.push_back(figure(label, x, y, std::nullopt, 0, 1));
  };
  add("device_memory_peak_bytes", worst_of(a.memory, &DeviceMemoryRank::peak_bytes),
      worst_of(b.memory, &DeviceMemoryRank::peak_bytes));
  add("host_memory_peak_bytes", worst_of(a.ranks, &RankStat::rss_peak_bytes),
      worst_of(b.ranks, &RankStat::rss_peak_bytes));
}

void add_throughput(const Snapshot& a, const Snapshot& b, Maybe noise, double least_change, Comparison& out) {
  for (const auto& [name, value] : a.throughput) {
    const auto other = b.throughput.find(name);
    const Maybe b_value = other == b.throughput.end() ? std::nullopt : other->second;
    if (value || b_value) out.figures.push_back(figure(name, value, b_value, noise, least_change, -1));
  }
}

std::vector<std::string> titles_only_in(const Snapshot& here, const Snapshot& other) {
  std::set<std::tuple<std::string, std::vector<int>, std::string>> known;
  for (const Finding& f : other.findings) {
    if (f.severity != Severity::kInfo) known.insert({f.kind.str(), f.ranks, f.phase});
  }
  std::vector<std::string> titles;
  for (const Finding& f : here.findings) {
    if (f.severity == Severity::kInfo || known.contains({f.kind.str(), f.ranks, f.phase})) continue;
    titles.push_back(display_name(f.kind) + ": " + f.title);
  }
  return titles;
}

// "" when the run ended well, else what happened to it.
std::string mishap(const Snapshot& s) {
  for (const Finding& f : s.findings) {
    if (f.severity == Severity::kCrit && urgency_of(f.kind.id()) == Urgency::kProgress) return display_name(f.kind);
  }
  return s.run.status == "crashed" || s.run.status == "hung" ? s.run.status : "";
}

void warn_where_unlike(const Snapshot& a, const Snapshot& b, Comparison& out) {
  const auto warn = [&](std::string text) { out.warnings.push_back(std::move(text)); };
  if (a.run.world_size != b.run.world_size)
    warn(formatted("world size differs: {} and {}", a.run.world_size, b.run.world_size));
  for (const char* key : {"torch", "device"}) {
    const auto x = a.run.versions.find(key), y = b.run.versions.find(key);
    if (x != a.run.versions.end() && y != b.run.versions.end() && x->second != y->second)
      warn(formatted("{} differs: {} and {}", key, x->second, y->second));
  }
  for (const Snapshot* s : {&a, &b}) {
    if (s->observer.coverage < 0.9)
      warn(formatted("{} rests on {} of ranks × steps", s->run.name, format_percent(s->observer.coverage)));
    if (s->run.status != "completed" && !s->run.status.empty()) warn(s->run.name + " is " + s->run.status);
  }
}

void decide(const Snapshot& a, const Snapshot& b, Comparison& out) {
  const ComparedFigure& step = out.figures.front();
  const std::string bad_a = mishap(a), bad_b = mishap(b);
  const auto conclude = [&](Outcome outcome, std::string reason) {
    out.outcome = outcome;
    out.reason = std::move(reason);
  };
  if (!bad_b.empty() && bad_a.empty())
    return conclude(Outcome::kRegression,
                    formatted("{} ended in trouble ({}), {} did not", b.run.name, bad_b, a.run.name));
  if (a.run.world_size != b.run.world_size)
    return conclude(Outcome::kInconclusive,
                    "The jobs have different world sizes, so their steps are not the same work");
  for (const Snapshot* s : {&a, &b}) {
    if (s->steps_analyzed < kMinComparedSteps) {
      return conclude(Outcome::kInconclusive, formatted("{} has {} analyzed steps; at least {} are needed", s->run.name,
                                                        s->steps_analyzed, kMinComparedSteps));
    }
  }
  if (!step.change || !step.noise)
    return conclude(Outcome::kInconclusive, "The step time was not measured on both sides");
  const std::string numbers = formatted("median step {} → {} ({:+.1f} %, noise ±{:.1f} %)", format_ms(step.a),
                                        format_ms(step.b), *step.change * 100, *step.noise * 100);
  switch (step.outcome) {
    case Outcome::kRegression: return conclude(step.outcome, "Slower: " + numbers);
    case Outcome::kImprovement: return conclude(step.outcome, "Faster: " + numbers);
    case Outcome::kSame: return conclude(step.outcome, "No change beyond noise: " + numbers);
    case Outcome::kInconclusive: return conclude(step.outcome, "Too noisy to tell: " + numbers);
  }
}

KindWord primary_kind(const Snapshot& s) {
  return s.primary >= 0 && static_cast<size_t>(s.primary) < s.findings.size()
             ? s.findings[static_cast<size_t>(s.primary)].kind
             : KindWord();
}

}  // namespace

std::string_view name(Outcome outcome) {
  switch (outcome) {
    case Outcome::kSame: return "same";
    case Outcome::kImprovement: return "improvement";
    case Outcome::kRegression: return "regression";
    case Outcome::kInconclusive: break;
  }
  return "inconclusive";
}

int exit_code(Outcome outcome) {
  return outcome == Outcome::kRegression ? 4 : outcome == Outcome::kInconclusive ? 3 : 0;
}

Comparison compare(const Snapshot& a, const Snapshot& b, const CompareOptions& options) {
  Comparison out{
      .name_a = a.run.name, .name_b = b.run.name, .primary_a = primary_kind(a), .primary_b = primary_kind(b)};
  const Maybe noise = noise_of(a, b);
  out.figures.push_back(figure("step_p50_ms", a.wall_ms.p50, b.wall_ms.p50, noise, options.least_change, 1));
  add_phases(a, b, out);
  out.figures.push_back(figure("step_p90_ms", a.wall_ms.p90, b.wall_ms.p90, std::nullopt, 0, 1));
  out.figures.push_back(figure("step_p99_ms", a.wall_ms.p99, b.wall_ms.p99, std::nullopt, 0, 1));
  out.figures.push_back(figure("step_mean_ms", a.wall_ms.mean, b.wall_ms.mean, std::nullopt, 0, 1));
  add_throughput(a, b, noise, options.least_change, out);
  add_memory(a, b, out);
  out.opened = titles_only_in(b, a);
  out.closed = titles_only_in(a, b);
  warn_where_unlike(a, b, out);
  decide(a, b, out);
  return out;
}

}  // namespace stepscope
