#include "report/summary_json.h"

#include <algorithm>
#include <cmath>

#include "report/evidence_table.h"
#include "report/json_write.h"

namespace stepscope {
namespace {

using Values = std::map<std::string, std::optional<double>>;

OrderedJson named_values(const Values& values) {
  OrderedJson out = OrderedJson::object();
  for (const auto& [name, value] : values) out[name] = json_named_number(name, value);
  return out;
}

OrderedJson run_json(const RunInfo& run) {
  OrderedJson versions = OrderedJson::object();
  for (const auto& [name, version] : run.versions) versions[name] = version;
  OrderedJson thresholds = OrderedJson::array();
  for (const ChangedThreshold& t : run.thresholds)
    thresholds.push_back({{"name", t.name}, {"value", json_number(t.value)}, {"default", json_number(t.standard)}});
  return {{"name", run.name},
          {"started_at", json_text_or_null(run.started_at)},
          {"duration_s", json_number(run.duration_s)},
          {"world_size", run.world_size},
          {"ranks_seen", run.ranks_seen},
          {"nodes", run.nodes},
          {"attempts", run.attempts},
          {"status", run.status},
          {"exit_code", json_int(run.exit_code)},
          {"command", run.command},
          {"versions", std::move(versions)},
          {"thresholds", std::move(thresholds)}};
}

OrderedJson checks_json(const Snapshot& s) {
  OrderedJson out = OrderedJson::array();
  for (const HealthCheck& c : s.checks) {
    out.push_back({{"name", c.name},
                   {"passed", c.passed},
                   {"value", json_number(c.value)},
                   {"limit", json_number(c.limit)},
                   {"text", json_text_or_null(c.text)}});
  }
  return out;
}

OrderedJson sections_json(const Snapshot& s) {
  OrderedJson out = OrderedJson::object();
  for (const Section& section : ordered_sections(s)) {
    out[section.name] = {{"diagnosis", section.diagnosis.text()},
                         {"severity", std::string(name(section.severity))},
                         {"text", section.text},
                         {"values", named_values(section.values)}};
  }
  return out;
}

OrderedJson ledger_json(const Snapshot& s) {
  double sum = 0;
  for (int64_t ns : s.job_ledger) sum += static_cast<double>(ns);
  OrderedJson job = OrderedJson::object();
  for (size_t i = 0; i < kCategoryCount; ++i) {
    const double share = static_cast<double>(s.job_ledger[i]) / sum;  // NaN without any step: null
    job[std::string(kCategoryNames[i])] = {{"ms", json_ns_as_ms(s.job_ledger[i])}, {"share", json_number(share)}};
  }
  OrderedJson ranks = OrderedJson::array();
  for (const RankStat& r : s.ranks) {
    int64_t wall_ns = 0;
    OrderedJson categories = OrderedJson::object();
    for (size_t i = 0; i < kCategoryCount; ++i) {
      wall_ns += r.ledger[i];
      categories[std::string(kCategoryNames[i])] = json_ns_as_ms(r.ledger[i]);
    }
    ranks.push_back({{"rank", r.rank},
                     {"wall_ms", json_ns_as_ms(wall_ns)},
                     {"steps_wall_ms", json_number(r.steps_wall_ms)},
                     {"categories", std::move(categories)}});
  }
  return {{"job", std::move(job)}, {"job_clock", s.job_clock}, {"ranks", std::move(ranks)}};
}

// Newest steps, as many as the bound allows. Microseconds are enough for a chart.
OrderedJson recent_json(const Snapshot& s) {
  size_t cells = 0, first = s.recent.size();
  while (first > 0 && cells + s.recent[first - 1].rank_ms.size() + 1 <= kMaxRecentCells) {
    cells += s.recent[--first].rank_ms.size() + 1;
  }
  const auto rounded = [](double ms) {
    return std::fabs(ms) < 1e9 ? json_number(std::round(ms * 1e3) / 1e3) : json_number(ms);
  };
  OrderedJson out = OrderedJson::array();
  for (size_t i = first; i < s.recent.size(); ++i) {
    OrderedJson rank_ms = OrderedJson::array();
    for (float ms : s.recent[i].rank_ms) rank_ms.push_back(rounded(ms));
    out.push_back({{"step", s.recent[i].step},
                   {"wall_ms", rounded(s.recent[i].wall_ms)},
                   {"tags", s.recent[i].tags},
                   {"rank_ms", std::move(rank_ms)}});
  }
  return out;
}

OrderedJson steps_json(const Snapshot& s) {
  return {{"count", s.steps},
          {"analyzed", s.steps_analyzed},
          {"wall_ms",
           {{"p50", json_number(s.wall_ms.p50)},
            {"p90", json_number(s.wall_ms.p90)},
            {"p99", json_number(s.wall_ms.p99)},
            {"mean", json_number(s.wall_ms.mean)}}},
          {"recent", recent_json(s)}};
}

OrderedJson phases_json(const Snapshot& s) {
  OrderedJson out = OrderedJson::object();
  for (const PhaseStat& p : ordered_phases(s)) {
    out[p.phase] = {{"median_ms", json_number(p.median_ms)},
                    {"worst_ms", json_number(p.worst_ms)},
                    {"worst_rank", json_int(p.worst_rank)},
                    {"skew_pct", json_number(p.skew_pct)},
                    {"share", json_number(p.share)}};
  }
  return out;
}

OrderedJson epochs_json(const Snapshot& s) {
  OrderedJson out = OrderedJson::array();
  for (const EpochStat& e : s.epochs) {
    OrderedJson categories = OrderedJson::object();
    for (size_t i = 0; i < kCategoryCount; ++i)
      if (e.ledger[i] != 0) categories[std::string(kCategoryNames[i])] = json_ns_as_ms(e.ledger[i]);
    out.push_back({{"epoch", e.epoch},
                   {"steps", {{"first", e.first_step}, {"last", e.last_step}, {"count", e.steps}}},
                   {"wall_ms", json_number(e.wall_ms)},
                   {"samples_per_s", json_number(e.samples_per_s)},
                   {"categories", std::move(categories)}});
  }
  return {{"count", s.epochs_count}, {"kept", std::move(out)}};
}

OrderedJson per_rank_json(const Snapshot& s) {
  OrderedJson out = OrderedJson::array();
  for (const RankStat& r : s.ranks) {
    OrderedJson phase_ms = OrderedJson::object();
    for (const auto& [phase, ms] : r.phase_ms) phase_ms[phase] = json_number(ms);
    out.push_back({{"rank", r.rank},
                   {"local_rank", r.local_rank},
                   {"node", r.node},
                   {"pid", r.pid},
                   {"hostname", r.hostname},
                   {"state", r.state.text()},
                   {"steps", r.steps},
                   {"step_ms", json_number(r.step_ms)},
                   {"own_ms", json_number(r.own_ms)},
                   {"stall_ms", json_number(r.stall_ms)},
                   {"caused_wait_ms", json_number(r.caused_wait_ms)},
                   {"phase_ms", std::move(phase_ms)},
                   {"cpu_share", json_number(r.cpu_share)},
                   {"rss_peak_bytes", json_named_number("rss_peak_bytes", r.rss_peak_bytes)},
                   {"uss_peak_bytes", json_named_number("uss_peak_bytes", r.uss_peak_bytes)},
                   {"samples_per_s", json_number(r.samples_per_s)},
                   {"tokens_per_s", json_number(r.tokens_per_s)},
                   {"flops_per_s", json_number(r.flops_per_s)},
                   {"mfu", json_number(r.mfu)},
                   {"last_phase", json_text_or_null(r.last_phase)}});
  }
  return out;
}

OrderedJson collectives_json(const Snapshot& s) {
  OrderedJson out = OrderedJson::array();
  for (const CollectiveStat& c : s.collectives) {
    out.push_back({{"group", c.group},
                   {"op", c.op},
                   {"ranks", c.ranks},
                   {"per_step", json_number(c.per_step)},
                   {"bytes_per_step", json_number(c.bytes_per_step)},
                   {"transfer_ms", json_number(c.transfer_ms)},
                   {"wait_ms", json_number(c.wait_ms)},
                   {"bus_gb_per_s", json_number(c.bus_gb_per_s)}});
  }
  return out;
}

OrderedJson memory_json(const Snapshot& s) {
  OrderedJson out = OrderedJson::object();
  for (const EvidenceRow& row : memory_rows(s)) {
    out[row.name] = {{"median", json_named_number(row.name, row.median)},
                     {"worst", json_named_number(row.name, row.worst)},
                     {"worst_rank", json_int(row.worst_rank)},
                     {"skew_pct", json_number(row.skew_pct)}};
  }
  OrderedJson ranks = OrderedJson::array();
  for (const DeviceMemoryRank& m : s.memory) {
    OrderedJson item = {{"rank", m.rank}};
    const auto add = [&](const char* key, std::optional<double> bytes) { item[key] = json_named_number(key, bytes); };
    add("allocated_bytes", m.allocated_bytes);
    add("reserved_bytes", m.reserved_bytes);
    add("peak_bytes", m.peak_bytes);
    add("capacity_bytes", m.capacity_bytes);
    add("head_bytes", m.head_bytes);
    add("tail_bytes", m.tail_bytes);
    ranks.push_back(std::move(item));
  }
  out["ranks"] = std::move(ranks);
  return out;
}

OrderedJson observer_json(const ObserverStat& o) {
  return {{"records", o.records},
          {"lost", o.lost},
          {"torn", o.torn},
          {"overhead_us_per_step", json_number(o.overhead_us_per_step)},
          {"coverage", json_number(o.coverage)},
          {"unavailable", o.unavailable},
          {"notes", o.notes}};
}

}  // namespace

std::string summary_json(const Snapshot& s, const TextOptions&) {
  OrderedJson findings = OrderedJson::array();
  for (const Finding& f : s.findings) findings.push_back(json_finding(f));
  const bool has_primary = s.primary >= 0 && static_cast<size_t>(s.primary) < s.findings.size();

  OrderedJson out;
  out["schema_version"] = kSummarySchemaVersion;
  out["run"] = run_json(s.run);
  out["primary"] = has_primary ? findings[static_cast<size_t>(s.primary)] : OrderedJson(nullptr);
  out["findings"] = std::move(findings);
  out["checks"] = checks_json(s);
  out["sections"] = sections_json(s);
  out["ledger"] = ledger_json(s);
  out["steps"] = steps_json(s);
  out["phases"] = phases_json(s);
  out["epochs"] = epochs_json(s);
  out["per_rank"] = per_rank_json(s);
  out["collectives"] = collectives_json(s);
  out["memory"] = memory_json(s);
  out["throughput"] = named_values(s.throughput);
  out["system"] = named_values(s.system);
  out["process"] = named_values(s.process);
  out["observer"] = observer_json(s.observer);
  return json_layout(out);
}

std::string finding_json(const Finding& finding) { return json_one_line(json_finding(finding)); }

}  // namespace stepscope
