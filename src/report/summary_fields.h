// Private to this room and its tests: the fields of final_summary.json, once. What a visitor does at each makes the
// writer (summary_json.cc), the reader (summary_read.cc) and the random snapshots of the tests, so that a field that is
// written is also read and tried. Every function takes its struct apart: a member that it does not name does not
// compile.
//
// A visitor V stands for one JSON object and has
//   V::kReads                         fills the snapshot; else the snapshot is const
//   v(key, x)                         a field: text, flag, number, word, list of plain values, map from names
//   v.or_null(key, text or word)      null where it is empty
//   v.figure(key, name, number)       left out where not known; whole where `name` says bytes or count
//   v.if_any(key, x)                  left out where not known or empty
//   v.step(key, x)                    a step number, null where -1
//   v.ms(key, ns)                     milliseconds to the nanosecond
//   v.ledger(key, ledger)             ms by category
//   v.rounded(key, ms or list)        milliseconds to the microsecond
//   v.derived(key, x)                 worked out from other fields: written only
//   v.object(key, f), v.object_or_null(key, x)     one object; null where there is none
//   v.list(key, items, f)             objects
//   v.named(key, items, name, f)      objects by the member `name`
//   v.by_rank(key, ranks, f)          more of the ranks that are known already
//   v.primary(snapshot)               the primary finding as a copy
#pragma once

#include <cmath>
#include <concepts>
#include <span>
#include <type_traits>

#include "diagnose/snapshot.h"
#include "report/evidence_table.h"
#include "report/summary_json.h"

namespace stepscope {

template <class T, class Struct>
concept Like = std::same_as<std::remove_const_t<T>, Struct>;

template <class V>
void summary_fields(V& v, Like<ChangedThreshold> auto& threshold) {
  auto& [name, value, standard] = threshold;
  v("name", name);
  v("value", value);
  v("default", standard);
}

template <class V>
void summary_fields(V& v, Like<RunInfo> auto& run) {
  auto& [name, started_at, duration_s, world_size, nodes, attempts, ranks_seen, status, exit_code, command, versions,
         thresholds] = run;
  v("name", name);
  v.or_null("started_at", started_at);
  v("duration_s", duration_s);
  v("world_size", world_size);
  if constexpr (V::kReads) ranks_seen = world_size;  // of files that do not say
  v("ranks_seen", ranks_seen);
  v("nodes", nodes);
  v("attempts", attempts);
  v("status", status);
  v("exit_code", exit_code);
  v("command", command);
  v("versions", versions);
  v.list("thresholds", thresholds);
}

template <class V>
void summary_fields(V& v, Like<Evidence> auto& evidence) {
  auto& [name, rank, value, others_median, text] = evidence;
  v("name", name);
  v.if_any("rank", rank);
  v.figure("value", name, value);
  v.figure("others_median", name, others_median);
  v.if_any("text", text);
}

template <class V>
void summary_fields(V& v, Like<Saving> auto& saving) {
  auto& [share, low, high, caveat] = saving;
  v("share", share);
  v("low", low);
  v("high", high);
  v.or_null("caveat", caveat);
}

template <class V>
void summary_fields(V& v, Like<Finding> auto& finding) {
  auto& [id, kind, severity, job_scope, of_seen, ranks, victims, phase, cause, explained_by, pattern, first_step,
         last_step, detected_step, cost_share, cost_seconds, saves, confidence, coverage, clock, section, title, action,
         evidence] = finding;
  v("id", id);
  v("kind", kind);
  v("severity", severity);
  std::string scope(finding.scope());
  v("scope", scope);
  if constexpr (V::kReads) {
    of_seen = scope == "seen";
    job_scope = of_seen || scope == "job";
  }
  v("ranks", ranks);
  v("victims", victims);
  v.or_null("phase", phase);
  v.or_null("cause", cause);
  v.or_null("explained_by", explained_by);
  v.or_null("pattern", pattern);
  v.object("steps", [&](auto& steps) {
    steps.step("first", first_step);
    steps.step("last", last_step);
    steps.step("detected", detected_step);
  });
  v.object("cost", [&](auto& cost) {
    cost("share", cost_share);
    cost("seconds", cost_seconds);
  });
  v.object_or_null("saves", saves);
  v("confidence", confidence);
  v("coverage", coverage);
  v("clock", clock);
  v.or_null("section", section);
  v("title", title);
  v.list("evidence", evidence);
  v("action", action);
  v.derived("doc", finding.doc());
}

template <class V>
void summary_fields(V& v, Like<HealthCheck> auto& check) {
  auto& [name, passed, value, limit, text] = check;
  v("name", name);
  v("passed", passed);
  v("value", value);
  v("limit", limit);
  v.or_null("text", text);
}

template <class V>
void summary_fields(V& v, Like<Section> auto& section) {  // by name
  auto& [name, diagnosis, severity, text, values] = section;
  v("diagnosis", diagnosis);
  v("severity", severity);
  v("text", text);
  v("values", values);
}

template <class V>
void summary_fields(V& v, Like<Percentiles> auto& percentiles) {
  auto& [p50, p90, p99, mean] = percentiles;
  v("p50", p50);
  v("p90", p90);
  v("p99", p99);
  v("mean", mean);
}

template <class V>
void summary_fields(V& v, Like<StepPoint> auto& point) {
  auto& [step, wall_ms, tags, rank_ms] = point;
  v("step", step);
  v.rounded("wall_ms", wall_ms);
  v("tags", tags);
  v.rounded("rank_ms", rank_ms);
}

template <class V>
void summary_fields(V& v, Like<PhaseStat> auto& stat) {  // by phase
  auto& [phase, median_ms, worst_ms, skew_pct, share, worst_rank] = stat;
  v("median_ms", median_ms);
  v("worst_ms", worst_ms);
  v("worst_rank", worst_rank);
  v("skew_pct", skew_pct);
  v("share", share);
}

template <class V>
void summary_fields(V& v, Like<EpochStat> auto& stat) {
  auto& [epoch, first_step, last_step, steps, wall_ms, ledger, samples_per_s] = stat;
  v("epoch", epoch);
  v.object("steps", [&](auto& range) {
    range("first", first_step);
    range("last", last_step);
    range("count", steps);
  });
  v("wall_ms", wall_ms);
  v("samples_per_s", samples_per_s);
  v.ledger("categories", ledger);
}

// A rank stands in two lists: what it is, and its ledger.
template <class V>
void summary_fields(V& v, Like<RankStat> auto& stat) {
  auto& [rank, local_rank, node, pid, hostname, state, steps, step_ms, own_ms, stall_ms, caused_wait_ms, phase_ms,
         cpu_share, rss_peak_bytes, uss_peak_bytes, samples_per_s, tokens_per_s, flops_per_s, mfu, last_phase,
         process_wall_ms, steps_wall_ms, ledger] = stat;
  v("rank", rank);
  v("local_rank", local_rank);
  v("node", node);
  v("pid", pid);
  v("hostname", hostname);
  v("state", state);
  v("steps", steps);
  v("step_ms", step_ms);
  v("own_ms", own_ms);
  v("stall_ms", stall_ms);
  v("caused_wait_ms", caused_wait_ms);
  v("phase_ms", phase_ms);
  v("cpu_share", cpu_share);
  v("rss_peak_bytes", rss_peak_bytes);
  v("uss_peak_bytes", uss_peak_bytes);
  v("samples_per_s", samples_per_s);
  v("tokens_per_s", tokens_per_s);
  v("flops_per_s", flops_per_s);
  v("mfu", mfu);
  v.or_null("last_phase", last_phase);
}

template <class V>
void ledger_fields(V& v, Like<RankStat> auto& stat) {
  v.derived("rank", stat.rank);
  if constexpr (V::kReads) {
    v("wall_ms", stat.process_wall_ms);
  } else {
    int64_t wall_ns = 0;
    for (int64_t ns : stat.ledger) wall_ns += ns;
    v.ms("wall_ms", wall_ns);
  }
  v("steps_wall_ms", stat.steps_wall_ms);
  v.ledger("categories", stat.ledger);
}

template <class V>
void summary_fields(V& v, Like<CollectiveStat> auto& stat) {
  auto& [group, op, ranks, per_step, bytes_per_step, transfer_ms, wait_ms, bus_gb_per_s] = stat;
  v("group", group);
  v("op", op);
  v("ranks", ranks);
  v("per_step", per_step);
  v("bytes_per_step", bytes_per_step);
  v("transfer_ms", transfer_ms);
  v("wait_ms", wait_ms);
  v("bus_gb_per_s", bus_gb_per_s);
}

template <class V>
void summary_fields(V& v, Like<DeviceMemoryRank> auto& memory) {
  auto& [rank, allocated_bytes, reserved_bytes, peak_bytes, capacity_bytes, head_bytes, tail_bytes] = memory;
  v("rank", rank);
  v("allocated_bytes", allocated_bytes);
  v("reserved_bytes", reserved_bytes);
  v("peak_bytes", peak_bytes);
  v("capacity_bytes", capacity_bytes);
  v("head_bytes", head_bytes);
  v("tail_bytes", tail_bytes);
}

template <class V>
void summary_fields(V& v, Like<ObserverStat> auto& observer) {
  auto& [records, lost, torn, overhead_us_per_step, coverage, unavailable, notes] = observer;
  v("records", records);
  v("lost", lost);
  v("torn", torn);
  v("overhead_us_per_step", overhead_us_per_step);
  v("coverage", coverage);
  v("unavailable", unavailable);
  v("notes", notes);
}

// The newest steps, as many as the bound allows.
inline size_t first_recent_kept(const std::vector<StepPoint>& recent) {
  size_t cells = 0, first = recent.size();
  while (first > 0 && cells + recent[first - 1].rank_ms.size() + 1 <= kMaxRecentCells) {
    cells += recent[--first].rank_ms.size() + 1;
  }
  return first;
}

template <class V>
void ledger_fields(V& v, Like<Snapshot> auto& s) {
  double sum = 0;
  for (int64_t ns : s.job_ledger) sum += static_cast<double>(ns);
  v.object("job", [&](auto& job) {
    for (size_t i = 0; i < kCategoryCount; ++i) {
      job.object(kCategoryNames[i].data(), [&](auto& category) {
        category.ms("ms", s.job_ledger[i]);
        category.derived("share", static_cast<double>(s.job_ledger[i]) / sum);  // NaN without any step: null
      });
    }
  });
  v("job_clock", s.job_clock);
  if constexpr (V::kReads) s.job_clock = s.job_clock == "gpu" ? "gpu" : "cpu";
  v.by_rank("ranks", s.ranks, [](auto& entry, auto& rank) { ledger_fields(entry, rank); });
}

template <class V>
void memory_fields(V& v, Like<Snapshot> auto& s) {
  if constexpr (!V::kReads) {
    for (const EvidenceRow& row : memory_rows(s)) {
      v.object(row.name.c_str(), [&](auto& entry) {
        entry.derived("median", row.name, row.median);
        entry.derived("worst", row.name, row.worst);
        entry("worst_rank", row.worst_rank);
        entry("skew_pct", row.skew_pct);
      });
    }
  }
  v.list("ranks", s.memory);
}

template <class V>
void summary_fields(V& v, Like<Snapshot> auto& s) {
  auto& [run, findings, primary, checks, sections, job_clock, job_ledger, steps, steps_analyzed, wall_ms, phases,
         epochs, epochs_count, ranks, collectives, memory, throughput, system, process, observer, recent] = s;
  v.object("run", [&](auto& o) { summary_fields(o, run); });
  v.primary(s);
  v.list("findings", findings);
  v.list("checks", checks);
  // Whatever the order in the snapshot, the file and a snapshot that was read have one.
  if constexpr (V::kReads) {
    v.named("sections", sections, &Section::name);
    sections = ordered_sections(s);
  } else {
    v.named("sections", ordered_sections(s), &Section::name);
  }
  if constexpr (V::kReads) v.list("per_rank", ranks);  // first: the ledgers are of these
  v.object("ledger", [&](auto& o) { ledger_fields(o, s); });
  v.object("steps", [&](auto& o) {
    o("count", steps);
    o("analyzed", steps_analyzed);
    o.object("wall_ms", [&](auto& p) { summary_fields(p, wall_ms); });
    if constexpr (V::kReads)
      o.list("recent", recent);
    else
      o.list("recent", std::span(recent).subspan(first_recent_kept(recent)));
  });
  if constexpr (V::kReads) {
    v.named("phases", phases, &PhaseStat::phase);
    phases = ordered_phases(s);
  } else {
    v.named("phases", ordered_phases(s), &PhaseStat::phase);
  }
  v.object("epochs", [&](auto& o) {
    o("count", epochs_count);
    o.list("kept", epochs);
  });
  if constexpr (!V::kReads) v.list("per_rank", ranks);
  v.list("collectives", collectives);
  v.object("memory", [&](auto& o) { memory_fields(o, s); });
  v("throughput", throughput);
  v("system", system);
  v("process", process);
  v.object("observer", [&](auto& o) { summary_fields(o, observer); });
}

}  // namespace stepscope
