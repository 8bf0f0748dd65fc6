#include "report/compare.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <tuple>

#include "base/text_format.h"
#include "report/evidence_table.h"
#include "report/figures.h"
#include "report/run_noise.h"

namespace stepscope {
namespace {

double square(double x) { return x * x; }

using Maybe = std::optional<double>;
using Side = std::span<const Snapshot>;
using Figure = std::function<Maybe(const Snapshot&)>;

Maybe finite(Maybe value) { return value && std::isfinite(*value) ? value : std::nullopt; }

bool long_enough(const Snapshot& run) { return run.steps_analyzed >= kMinComparedSteps; }

// The runs that have enough steps; where none has, all.
std::vector<const Snapshot*> counted_runs(Side side) {
  const bool any_long = std::any_of(side.begin(), side.end(), long_enough);
  std::vector<const Snapshot*> out;
  for (const Snapshot& run : side)
    if (!any_long || long_enough(run)) out.push_back(&run);
  return out;
}

std::vector<double> values_of(const std::vector<const Snapshot*>& runs, const Figure& figure) {
  std::vector<double> out;
  for (const Snapshot* run : runs)
    if (const Maybe value = finite(figure(*run))) out.push_back(*value);
  return out;
}

// Noise of the step where each side is one run: what both are uncertain by, and what runs are taken to differ by.
Maybe noise_of_a_pair(const Snapshot& a, const Snapshot& b) {
  const auto x = median_error(a), y = median_error(b);
  if (!x || !y) return std::nullopt;
  const double ratio = *b.wall_ms.p50 / *a.wall_ms.p50;
  const double between_a = std::max(kAssumedRunNoise, crowding(a)), between_b = std::max(kAssumedRunNoise, crowding(b));
  return kPairErrors * std::sqrt(square(*x) + square(between_a) + square(ratio) * (square(*y) + square(between_b)));
}

class Comparer {
 public:
  Comparer(Side a, Side b, double least_change)
      : a_(counted_runs(a)), b_(counted_runs(b)), least_change_(least_change) {}

  // How a figure is judged: kStep by the step's noise where single runs tell no other, kShown not at all.
  enum class Judged { kStep, kBySeveral, kShown };

  // `worse` is +1 where more is worse, -1 where more is better. No row where neither side has the figure.
  void add(std::string name, const Figure& figure, Judged judged, int worse = 1) {
    const std::vector<double> x = values_of(a_, figure), y = values_of(b_, figure);
    if (x.empty() && y.empty() && !out_.empty()) return;
    ComparedFigure f{.name = std::move(name)};
    if (!x.empty()) f.a = mean_of(x);
    if (!y.empty()) f.b = mean_of(y);
    if (f.a && f.b && *f.a > 0 && judged != Judged::kShown) {
      f.change = (*f.b - *f.a) / *f.a;
      const TwoMeans means = two_means(x, y);
      if (means.freedom() > 0)
        f.noise = chance_difference(means) / *f.a;
      else if (judged == Judged::kStep && a_.size() == 1 && b_.size() == 1)
        f.noise = noise_of_a_pair(*a_.front(), *b_.front());
      if (means.freedom() > 0 && out_.empty()) run_noise_ = means.deviation / *f.a;
    }
    f.outcome = outcome_of(f, worse);
    out_.push_back(std::move(f));
  }

  Maybe run_noise() const { return run_noise_; }
  std::vector<ComparedFigure> take() { return std::move(out_); }

 private:
  Outcome outcome_of(const ComparedFigure& f, int worse) const {
    if (!f.change || !f.noise) return Outcome::kInconclusive;
    const double size = std::fabs(*f.change);
    if (size >= least_change_ && size > *f.noise)
      return *f.change * worse > 0 ? Outcome::kRegression : Outcome::kImprovement;
    return size < least_change_ && size + *f.noise < 2 * least_change_ ? Outcome::kSame : Outcome::kInconclusive;
  }

  std::vector<const Snapshot*> a_, b_;
  double least_change_;
  Maybe run_noise_;
  std::vector<ComparedFigure> out_;
};

template <class Visit>
void each_run(Side a, Side b, Visit visit) {
  for (const Side side : {a, b})
    for (const Snapshot& run : side) visit(run);
}

void add_phases(Comparer& comparer, Side a, Side b) {
  std::set<std::pair<size_t, std::string>> phases;
  each_run(a, b, [&](const Snapshot& run) {
    for (const PhaseStat& p : run.phases) phases.insert({phase_order(p.phase), p.phase});
  });
  for (const auto& [place, phase] : phases) {
    comparer.add(
        phase + "_ms",
        [&phase](const Snapshot& run) -> Maybe {
          for (const PhaseStat& p : run.phases)
            if (p.phase == phase) return p.median_ms;
          return std::nullopt;
        },
        Comparer::Judged::kBySeveral);
  }
}

// What the ledger says of stalls, per step and rank: no phase's own time tells it.
void add_stalls(Comparer& comparer, Side a, Side b) {
  for (size_t c = 0; c < kCategoryCount; ++c) {
    if (!is_of_stalls(static_cast<Category>(c))) continue;
    bool any = false;
    each_run(a, b, [&](const Snapshot& run) { any = any || run.job_ledger[c] > 0; });
    if (!any) continue;
    comparer.add(
        std::string(kCategoryNames[c]) + "_ms",
        [c](const Snapshot& run) -> Maybe {
          if (run.steps == 0) return std::nullopt;
          return static_cast<double>(run.job_ledger[c]) / static_cast<double>(run.steps) * 1e-6;
        },
        Comparer::Judged::kBySeveral);
  }
}

// Own time of the slowest rank above the median rank's. A share of a share changes by nothing that could be read.
Maybe own_time_skew_pct(const Snapshot& run) {
  std::vector<std::pair<int, Maybe>> own_ms;
  for (const RankStat& rank : run.ranks) own_ms.emplace_back(rank.rank, finite(rank.own_ms));
  return own_ms.size() < 2 ? std::nullopt : row_over_ranks("own", own_ms).skew_pct;
}

template <class T>
Figure worst_of(std::vector<T> Snapshot::* items, Maybe T::* field) {
  return [=](const Snapshot& run) {
    Maybe most;
    for (const T& item : run.*items) {
      const Maybe value = finite(item.*field);
      if (value && (!most || *value > *most)) most = value;
    }
    return most;
  };
}

void add_throughput(Comparer& comparer, Side a, Side b) {
  std::set<std::string> names;
  each_run(a, b, [&](const Snapshot& run) {
    for (const auto& [name, value] : run.throughput) names.insert(name);
  });
  for (const std::string& name : names) {
    comparer.add(
        name,
        [&name](const Snapshot& run) {
          const auto found = run.throughput.find(name);
          return found == run.throughput.end() ? std::nullopt : found->second;
        },
        Comparer::Judged::kStep, -1);
  }
}

// By kind, ranks and phase: in how many runs, and a title of the finding.
using Finds = std::map<std::tuple<std::string, std::vector<int>, std::string>, std::pair<size_t, std::string>>;

Finds finds_of(Side side) {
  Finds out;
  for (const Snapshot& run : side) {
    std::set<Finds::key_type> here;
    for (const Finding& f : run.findings) {
      if (f.severity == Severity::kInfo || !here.insert({f.kind.str(), f.ranks, f.phase}).second) continue;
      auto& [runs, title] = out[{f.kind.str(), f.ranks, f.phase}];
      ++runs;
      title = display_name(f.kind) + ": " + f.title;
    }
  }
  return out;
}

std::vector<std::string> titles_only_in(Side here, Side other) {
  const Finds known = finds_of(other);
  std::vector<std::string> titles;
  for (const auto& [key, find] : finds_of(here)) {
    const auto& [runs, title] = find;
    const auto found = known.find(key);
    const size_t there = found == known.end() ? 0 : found->second.first;
    if (2 * runs <= here.size() || 2 * there > other.size()) continue;
    titles.push_back(here.size() == 1 ? title : formatted("{} ({} of {} runs)", title, runs, here.size()));
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

std::string words_of(const std::vector<std::string>& command) {
  std::string out;
  for (const std::string& word : command) out += (out.empty() ? "" : " ") + word;
  return out;
}

// What of the runs is not the same in all of them. Each difference is told once, by the first run that shows it.
void warn_where_unlike(Side a, Side b, Comparison& out) {
  const auto warn = [&](std::string text) { out.warnings.push_back(std::move(text)); };
  std::set<std::string> told;
  const auto compare_word = [&](const std::string& what, const std::string& x, const std::string& y) {
    if (x != y && !x.empty() && !y.empty() && told.insert(what).second)
      warn(formatted("{} differs: {} and {}", what, x, y));
  };
  const RunInfo& first = a.front().run;
  each_run(a, b, [&](const Snapshot& s) {
    compare_word("world size", std::to_string(first.world_size), std::to_string(s.run.world_size));
    compare_word("number of nodes", std::to_string(first.nodes), std::to_string(s.run.nodes));
    for (const auto& [key, version] : s.run.versions) {
      if (const auto found = first.versions.find(key); found != first.versions.end())
        compare_word(key, found->second, version);
    }
    compare_word("command", words_of(first.command), words_of(s.run.command));
  });
  each_run(a, b, [&](const Snapshot& s) {
    if (s.observer.coverage < 0.9)
      warn(formatted("{} rests on {} of ranks × steps", s.run.name, format_percent(s.observer.coverage)));
    if (s.run.status != "completed" && !s.run.status.empty()) warn(s.run.name + " is " + s.run.status);
    if (const double share = crowding(s); share > kAssumedRunNoise)
      warn(formatted("{}: its ranks waited {} of the time for a core that other programs used", s.run.name,
                     format_percent(share)));
  });
  for (const Side side : {a, b}) {
    if (std::none_of(side.begin(), side.end(), long_enough)) continue;
    for (const Snapshot& s : side) {
      if (!long_enough(s))
        warn(formatted("{} has {} analyzed steps and is left out of the figures", s.run.name, s.steps_analyzed));
    }
  }
}

std::string numbers_of(const ComparedFigure& step) {
  return formatted("median step {} → {} ({:+.1f} %, noise ±{:.1f} %)", format_ms(step.a), format_ms(step.b),
                   *step.change * 100, *step.noise * 100);
}

// Trouble in B and none in A, as one sentence; "" where it is not so.
std::string trouble(Side a, Side b) {
  if (std::any_of(a.begin(), a.end(), [](const Snapshot& s) { return !mishap(s).empty(); })) return "";
  for (const Snapshot& s : b) {
    if (const std::string bad = mishap(s); !bad.empty())
      return formatted("{} ended in trouble ({}), {} did not", s.run.name, bad,
                       a.size() == 1 ? a.front().run.name : "no run of A");
  }
  return "";
}

void decide(Side a, Side b, Comparison& out) {
  const ComparedFigure& step = out.figures.front();
  const auto conclude = [&](Outcome outcome, std::string reason) {
    out.outcome = outcome;
    out.reason = std::move(reason);
  };
  if (std::string bad = trouble(a, b); !bad.empty()) return conclude(Outcome::kRegression, std::move(bad));
  bool alike = true;
  each_run(a, b, [&](const Snapshot& s) { alike = alike && s.run.world_size == a.front().run.world_size; });
  if (!alike)
    return conclude(Outcome::kInconclusive,
                    "The jobs have different world sizes, so their steps are not the same work");
  for (const Side side : {a, b}) {
    if (std::any_of(side.begin(), side.end(), long_enough)) continue;
    return conclude(Outcome::kInconclusive,
                    formatted("{} has {} analyzed steps; at least {} are needed", side.front().run.name,
                              side.front().steps_analyzed, kMinComparedSteps));
  }
  if (!step.change || !step.noise)
    return conclude(Outcome::kInconclusive, "The step time was not measured on both sides");
  const std::string numbers = numbers_of(step);
  switch (step.outcome) {
    case Outcome::kRegression: return conclude(step.outcome, "Slower: " + numbers);
    case Outcome::kImprovement: return conclude(step.outcome, "Faster: " + numbers);
    case Outcome::kSame: return conclude(step.outcome, "No change beyond noise: " + numbers);
    case Outcome::kInconclusive: break;
  }
  const bool pair = a.size() == 1 && b.size() == 1;
  conclude(step.outcome, "Too noisy to tell: " + numbers +
                             (pair ? "; three runs a side show what runs differ by (--baseline, --candidate)" : ""));
}

ComparedSide side_of(Side side) {
  ComparedSide out;
  for (const Snapshot& s : side) {
    const bool known = s.primary >= 0 && static_cast<size_t>(s.primary) < s.findings.size();
    out.runs.push_back(
        {s.run.name, known ? s.findings[static_cast<size_t>(s.primary)].kind : KindWord(), finite(s.wall_ms.p50)});
  }
  return out;
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

std::string ComparedSide::name() const {
  std::string out;
  for (const ComparedRun& run : runs) out += (out.empty() ? "" : ", ") + run.name;
  return out;
}

KindWord ComparedSide::primary() const {
  const auto times = [this](const ComparedRun& run) {
    return std::count_if(runs.begin(), runs.end(), [&](const ComparedRun& r) { return r.primary == run.primary; });
  };
  const auto most = std::max_element(runs.begin(), runs.end(),
                                     [&](const ComparedRun& x, const ComparedRun& y) { return times(x) < times(y); });
  return most == runs.end() ? KindWord() : most->primary;
}

Comparison compare(std::span<const Snapshot> a, std::span<const Snapshot> b, const CompareOptions& options) {
  Comparison out{.a = side_of(a), .b = side_of(b)};
  Comparer comparer(a, b, options.least_change);
  const auto step = [](Maybe Percentiles::* field) {
    return [field](const Snapshot& run) { return run.wall_ms.*field; };
  };
  comparer.add("step_p50_ms", step(&Percentiles::p50), Comparer::Judged::kStep);
  add_phases(comparer, a, b);
  add_stalls(comparer, a, b);
  comparer.add("own_time_skew_pct", own_time_skew_pct, Comparer::Judged::kShown);
  comparer.add("step_p90_ms", step(&Percentiles::p90), Comparer::Judged::kBySeveral);
  comparer.add("step_p99_ms", step(&Percentiles::p99), Comparer::Judged::kBySeveral);
  comparer.add("step_mean_ms", step(&Percentiles::mean), Comparer::Judged::kBySeveral);
  add_throughput(comparer, a, b);
  comparer.add("device_memory_peak_bytes", worst_of(&Snapshot::memory, &DeviceMemoryRank::peak_bytes),
               Comparer::Judged::kBySeveral);
  comparer.add("host_memory_peak_bytes", worst_of(&Snapshot::ranks, &RankStat::rss_peak_bytes),
               Comparer::Judged::kBySeveral);
  out.run_noise = comparer.run_noise();
  out.figures = comparer.take();
  out.opened = titles_only_in(b, a);
  out.closed = titles_only_in(a, b);
  warn_where_unlike(a, b, out);
  decide(a, b, out);
  return out;
}

Comparison compare(const Snapshot& a, const Snapshot& b, const CompareOptions& options) {
  return compare(std::span(&a, 1), std::span(&b, 1), options);
}

}  // namespace stepscope
