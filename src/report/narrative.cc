#include "report/narrative.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/text_format.h"
#include "report/figures.h"

namespace stepscope {
namespace {

using Pair = std::pair<std::string_view, std::string_view>;

constexpr Pair kPatterns[] = {
    {"chronic", "in nearly every step"},
    {"rotating", "moves from rank to rank"},
    {"drifting", "grows over time"},
    {"transient", "now and then"},
};

template <size_t N>
std::string looked_up(const Pair (&table)[N], std::string_view key) {
  for (const auto& [from, to] : table) {
    if (key == from) return std::string(to);
  }
  std::string out(key);
  std::replace(out.begin(), out.end(), '_', ' ');
  return out;
}

std::string steps_phrase(const Finding& f) {
  if (f.first_step < 0) return "";
  std::string out = f.last_step > f.first_step ? formatted("steps {} to {}", f.first_step, f.last_step)
                                               : formatted("step {}", f.first_step);
  if (f.detected_step >= 0) out += formatted(", detected at step {}", f.detected_step);
  return out;
}

std::vector<std::string> context_of(const Finding& f) {
  std::vector<std::string> out;
  const auto add = [&](std::string text) {
    if (!text.empty()) out.push_back(std::move(text));
  };
  add(f.pattern.empty() ? "" : looked_up(kPatterns, f.pattern));
  add(steps_phrase(f));
  add(f.cause.empty() ? "" : "cause: " + sentence_of(f.cause));
  if (f.confidence > 0) add("confidence " + format_percent(f.confidence));
  if (f.coverage > 0) add("coverage " + format_percent(f.coverage));
  if (f.clock == "gpu") add("GPU clock");
  return out;
}

std::string cost_of(const Finding& f) {
  if (!(f.cost_share > 0)) return "";
  return format_percent(f.cost_share) + " of wall time" +
         (f.cost_seconds > 0 ? ", " + format_seconds(f.cost_seconds) : "");
}

// A narrow range is one number: the share itself.
struct SavingWords {
  double low = 0, high = 0;
  std::string text;
};

SavingWords saving_words(const Saving& saves) {
  constexpr double kNarrow = 0.03;
  const double low = saves.low.value_or(saves.share), high = saves.high.value_or(saves.share);
  if (high - low < kNarrow) return {saves.share, saves.share, format_percent(saves.share)};
  return {low, high, formatted("{:.0f} to {}", 100 * low, format_percent(high))};
}

std::string saves_of(const Snapshot& s, const Finding& f) {
  if (!f.saves || !(f.saves->share > 0)) return "";
  const SavingWords words = saving_words(*f.saves);
  std::string out = words.text + " of wall time when fixed";
  const auto step = s.wall_ms.mean ? s.wall_ms.mean : s.wall_ms.p50;
  if (step && words.high <= 1) {
    const std::string least = format_ms(*step * (1 - words.high)), most = format_ms(*step * (1 - words.low));
    out += formatted(": the mean step goes from {} to ", format_ms(step));
    out += least == most ? least : formatted("between {} and {}", least, most);
  }
  if (words.low < words.high && !f.saves->caveat.empty()) out += ". The range is wide: " + f.saves->caveat;
  return out;
}

Fact fact_of(const Evidence& e) {
  Fact fact{.label = value_label(e.name)};
  if (e.rank) fact.who = formatted("rank {}", *e.rank);
  if (e.value) fact.value = format_value(e.name, e.value);
  if (e.others_median) fact.others = "others " + format_value(e.name, e.others_median);
  if (!e.text.empty())
    (fact.value.empty() ? fact.value : fact.others)
        .append(fact.others.empty() || fact.value.empty() ? "" : "; ")
        .append(e.text);
  return fact;
}

// Without any finding the snapshot still has a state.
Verdict verdict_without_finding(const Snapshot& s) {
  if (s.steps == 0 && s.run.status == "running")
    return {.name = "NO STEP YET", .headline = "No training step has been completed so far."};
  if (s.steps == 0) {
    return {
        .name = "NO DATA",
        .headline = "No training step was seen.",
        .action =
            "stepscope sees optimizer steps and backward passes of PyTorch; `stepscope doctor` says what is missing."};
  }
  return {.name = "BALANCED", .headline = "No bottleneck stands out: the ranks keep pace and no phase dominates."};
}

std::string signal_name(int number) {
  switch (number) {
    case 2: return "SIGINT";
    case 6: return "SIGABRT";
    case 9: return "SIGKILL";
    case 11: return "SIGSEGV";
    case 15: return "SIGTERM";
    default: return formatted("signal {}", number);
  }
}

std::string counted(uint64_t count, std::string_view noun) {
  return formatted("{} {}{}", format_count(count), noun, count == 1 ? "" : "s");
}

}  // namespace

Verdict verdict_of(const Snapshot& s, const Finding& f) {
  Verdict v{.name = display_name(f.kind),
            .severity = f.severity,
            .headline = f.title,
            .context = context_of(f),
            .cost = cost_of(f),
            .saves = saves_of(s, f),
            .action = f.action,
            .explain = f.doc().empty() ? "" : "stepscope explain " + f.kind.str()};
  if (!v.saves.empty()) v.saves_share = saving_words(*f.saves).text;
  for (const Finding& root : s.findings)
    if (!f.explained_by.empty() && root.id == f.explained_by)
      v.context.push_back("effect of " + display_name(root.kind));
  for (const Evidence& e : f.evidence) v.facts.push_back(fact_of(e));
  return v;
}

Verdict verdict_of(const Snapshot& s) {
  if (s.primary >= 0 && static_cast<size_t>(s.primary) < s.findings.size()) {
    return verdict_of(s, s.findings[static_cast<size_t>(s.primary)]);
  }
  return verdict_without_finding(s);
}

std::vector<std::string> check_phrases(const Snapshot& s) {
  std::vector<std::string> out;
  const auto phrase = [](const HealthCheck& c) {
    const std::string value = c.value ? format_percent(c.value) : "", limit = c.limit ? format_percent(c.limit) : "";
    const std::string decided = c.text.empty() ? "" : " (" + display_name(KindWord::parsed(c.text)) + ")";
    if (c.name == "data_complete")
      return (c.value.value_or(0) >= 1 ? "All ranks × steps were seen" : value + " of ranks × steps were seen") +
             decided;
    if (c.name == "no_costed_finding") {
      if (c.passed) return formatted("No finding costs {} or more", limit);
      return c.value.value_or(0) > 0 ? formatted("A finding costs {}{}", value, decided)
                                     : formatted("A finding warns{}", decided);
    }
    if (c.name == "other_time") {
      const std::string most = c.text.empty() ? "" : ", most of it " + category_label(c.text);
      return formatted("{} of the time is not compute{} (limit {})", value, most, limit);
    }
    if (c.name == "ranks_keep_pace")
      return formatted("Ranks wait for each other {} of the time (limit {})", value, limit);
    if (c.name == "steady_step_time")
      return c.passed ? std::string("The step time is steady") : "The step time is not steady" + decided;
    return looked_up(kPatterns, c.name) + decided;
  };
  for (const bool passed : {false, true})
    for (const HealthCheck& c : s.checks)
      if (c.passed == passed) out.push_back((passed ? "✓ " : "✗ ") + phrase(c));
  return out;
}

std::string thresholds_text(const RunInfo& run) {
  std::string out;
  for (const ChangedThreshold& t : run.thresholds)
    out += formatted("{}{} {} (default {})", out.empty() ? "Thresholds changed: " : ", ", t.name, t.value, t.standard);
  return out;
}

std::string status_text(const RunInfo& run) {
  if (run.status.empty()) return "state unknown";
  if (!run.exit_code || (run.status == "completed" && *run.exit_code == 0) || run.status == "running")
    return run.status;
  const int code = *run.exit_code;
  return code > 128 && code < 128 + 65 ? formatted("{} by {} (exit code {})", run.status, signal_name(code - 128), code)
                                       : formatted("{} (exit code {})", run.status, code);
}

std::string ranks_meant(const RunInfo& run) {
  return run.ranks_seen > 0 && run.ranks_seen < run.world_size ? formatted("the {} ranks seen", run.ranks_seen)
                                                               : std::string("ranks");
}

std::vector<std::string> run_phrases(const RunInfo& run, uint64_t steps) {
  std::vector<std::string> out = {counted(static_cast<uint64_t>(std::max(run.world_size, 0)), "rank")};
  const bool half_seen = run.ranks_seen > 0 && run.ranks_seen < run.world_size;
  if (half_seen) out.back() = formatted("{} of {} seen", run.ranks_seen, out.back());
  if (run.nodes > 0) out.back() += (half_seen ? ", on " : " on ") + counted(static_cast<uint64_t>(run.nodes), "node");
  out.push_back(counted(steps, "step"));
  if (run.duration_s > 0) out.push_back(format_seconds(run.duration_s));
  if (run.attempts > 1) out.push_back(formatted("{} attempts", run.attempts));
  out.push_back(status_text(run));
  if (!run.started_at.empty()) out.push_back("started " + run.started_at);
  return out;
}

std::vector<std::string> observer_phrases(const ObserverStat& o) {
  std::vector<std::string> out = {counted(o.records, "record") +
                                  (o.lost == 0 ? ", none lost" : ", " + format_count(o.lost) + " lost")};
  if (o.torn > 0) out.push_back(format_count(o.torn) + " torn");
  out.push_back("coverage " + format_percent(o.coverage) + " of ranks × steps");
  if (o.overhead_us_per_step)
    out.push_back("about " + format_value("overhead_us", o.overhead_us_per_step) + " per step in the ranks");
  return out;
}

std::vector<std::string> step_phrases(const Snapshot& s) {
  std::vector<std::string> out;
  const auto add = [&](const char* label, std::optional<double> ms) {
    if (ms) out.push_back(formatted("{} {}", label, format_ms(ms)));
  };
  add("p50", s.wall_ms.p50);
  add("p90", s.wall_ms.p90);
  add("p99", s.wall_ms.p99);
  add("mean", s.wall_ms.mean);
  if (s.steps > 0)
    out.push_back(formatted("{} of {} steps analyzed", format_count(s.steps_analyzed), format_count(s.steps)));
  for (std::string& phrase : value_phrases(s.throughput)) out.push_back(std::move(phrase));
  return out;
}

std::vector<std::string> value_phrases(const std::map<std::string, std::optional<double>>& values) {
  std::vector<std::string> out;
  for (const auto& [name, value] : values) {
    if (!value || !std::isfinite(*value)) continue;
    const bool counted = name == "samples_per_s" || name == "tokens_per_s";
    if (counted)
      out.push_back(format_value("", *value) + " " + value_label(name) + "/s");
    else
      out.push_back((name == "flops_per_s" ? "" : value_label(name) + " ") + format_value(name, value));
  }
  return out;
}

std::string section_title(std::string_view name) {
  std::string out = category_label(name);
  bool first = true;
  for (char& c : out) {
    if (first && c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    first = c == ' ';
  }
  return out;
}

}  // namespace stepscope
