#include "report/summary_read.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/json_bounds.h"
#include "base/text_format.h"
#include "report/evidence_table.h"
#include "report/json_fields.h"
#include "report/summary_json.h"

namespace stepscope {
namespace {

// "" when within bounds.
std::string out_of_bounds(std::string_view json) {
  if (json.size() > kMaxSummaryBytes) return formatted("larger than {} MiB", kMaxSummaryBytes >> 20);
  switch (json_excess(json, {kMaxSummaryDepth, kMaxSummaryValues})) {
    case JsonExcess::kDepth: return formatted("nested deeper than {}", kMaxSummaryDepth);
    case JsonExcess::kValues: return formatted("more than {} values", kMaxSummaryValues);
    case JsonExcess::kNone: break;
  }
  return "";
}

Severity severity_from(const std::string& text) {
  return text == "crit" ? Severity::kCrit : text == "warn" ? Severity::kWarn : Severity::kInfo;
}

RunInfo read_run(const JsonFields& f) {
  RunInfo run;
  run.name = f.text("name");
  run.started_at = f.text("started_at");
  run.duration_s = f.number_or_zero("duration_s");
  run.world_size = f.int_or("world_size", 0);
  run.ranks_seen = f.int_or("ranks_seen", run.world_size);
  run.nodes = f.int_or("nodes", 0);
  run.attempts = f.int_or("attempts", 1);
  run.status = f.text("status");
  run.exit_code = f.optional_int("exit_code");
  run.command = f.texts("command");
  run.versions = f.text_map("versions");
  for (const JsonFields& t : f.children("thresholds"))
    run.thresholds.push_back({t.text("name"), t.number_or_zero("value"), t.number_or_zero("default")});
  return run;
}

Finding read_finding(const JsonFields& f) {
  Finding out;
  out.id = f.text("id");
  out.kind = KindWord::parsed(f.text("kind"));
  out.severity = severity_from(f.text("severity"));
  out.of_seen = f.text("scope") == "seen";
  out.job_scope = out.of_seen || f.text("scope") == "job";
  out.ranks = f.ints("ranks");
  out.victims = f.ints("victims");
  out.phase = f.text("phase");
  out.cause = CauseWord::parsed(f.text("cause"));
  out.pattern = f.text("pattern");
  const JsonFields steps = f.child("steps");
  constexpr int64_t kMaxStep = int64_t{1} << 53;
  out.first_step = steps.whole("first", 0, kMaxStep).value_or(-1);
  out.last_step = steps.whole("last", 0, kMaxStep).value_or(-1);
  out.detected_step = steps.whole("detected", 0, kMaxStep).value_or(-1);
  out.cost_share = f.child("cost").number_or_zero("share");
  out.cost_seconds = f.child("cost").number_or_zero("seconds");
  out.saves_share = f.child("saves").number("share");
  out.confidence = f.number_or_zero("confidence");
  out.coverage = f.number_or_zero("coverage");
  out.clock = f.text("clock");
  out.section = SectionWord::parsed(f.text("section"));
  out.title = f.text("title");
  out.action = f.text("action");
  for (const JsonFields& e : f.children("evidence")) {
    out.evidence.push_back({.name = e.text("name"),
                            .rank = e.optional_int("rank"),
                            .value = e.number("value"),
                            .others_median = e.number("others_median"),
                            .text = e.text("text")});
  }
  return out;
}

void read_ledger(const JsonFields& f, Snapshot& s) {
  s.job_clock = f.text("job_clock") == "gpu" ? "gpu" : "cpu";
  const JsonFields job = f.child("job");
  for (size_t i = 0; i < kCategoryCount; ++i) {
    s.job_ledger[i] = job.child(kCategoryNames[i].data()).ms_as_ns("ms");
  }
  std::map<int, RankStat*> by_rank;
  for (RankStat& r : s.ranks) by_rank.emplace(r.rank, &r);
  for (const JsonFields& entry : f.children("ranks")) {
    const auto found = by_rank.find(entry.int_or("rank", -1));
    if (found == by_rank.end()) continue;
    RankStat& r = *found->second;
    const JsonFields categories = entry.child("categories");
    for (size_t i = 0; i < kCategoryCount; ++i) r.ledger[i] = categories.ms_as_ns(kCategoryNames[i].data());
    r.process_wall_ms = entry.number_or_zero("wall_ms");
    r.steps_wall_ms = entry.number_or_zero("steps_wall_ms");
  }
}

RankStat read_rank(const JsonFields& f) {
  RankStat r;
  r.rank = f.int_or("rank", 0);
  r.local_rank = f.int_or("local_rank", 0);
  r.node = f.int_or("node", 0);
  r.pid = f.int_or("pid", 0);
  r.hostname = f.text("hostname");
  r.state = Word<RankState>::parsed(f.text("state"));
  r.steps = f.count64("steps");
  r.step_ms = f.number("step_ms");
  r.own_ms = f.number("own_ms");
  r.stall_ms = f.number("stall_ms");
  r.caused_wait_ms = f.number("caused_wait_ms");
  r.phase_ms = f.number_map("phase_ms");
  r.cpu_share = f.number("cpu_share");
  r.rss_peak_bytes = f.number("rss_peak_bytes");
  r.uss_peak_bytes = f.number("uss_peak_bytes");
  r.samples_per_s = f.number("samples_per_s");
  r.tokens_per_s = f.number("tokens_per_s");
  r.flops_per_s = f.number("flops_per_s");
  r.mfu = f.number("mfu");
  r.last_phase = f.text("last_phase");
  return r;
}

void read_steps(const JsonFields& f, Snapshot& s) {
  s.steps = f.count64("count");
  s.steps_analyzed = f.count64("analyzed");
  const JsonFields wall = f.child("wall_ms");
  s.wall_ms = {wall.number("p50"), wall.number("p90"), wall.number("p99"), wall.number("mean")};
  for (const JsonFields& p : f.children("recent")) {
    s.recent.push_back({p.count64("step"), p.number_or_zero("wall_ms"), p.count32("tags"), p.floats("rank_ms")});
  }
}

void read_tables(const JsonFields& root, Snapshot& s) {
  for (const auto& [name, f] : root.children_by_name("sections")) {
    s.sections.push_back({name, KindWord::parsed(f.text("diagnosis")), severity_from(f.text("severity")),
                          f.text("text"), f.number_map("values")});
  }
  s.sections = ordered_sections(s);
  for (const auto& [phase, f] : root.children_by_name("phases")) {
    s.phases.push_back({phase, f.number("median_ms"), f.number("worst_ms"), f.number("skew_pct"), f.number("share"),
                        f.optional_int("worst_rank")});
  }
  s.phases = ordered_phases(s);
  const JsonFields epochs = root.child("epochs");
  s.epochs_count = epochs.count32("count");
  for (const JsonFields& f : epochs.children("kept")) {
    const JsonFields steps = f.child("steps"), categories = f.child("categories");
    EpochStat e{f.int_or("epoch", 0),     steps.count64("first"),      steps.count64("last"),
                steps.count64("count"),   f.number_or_zero("wall_ms"), {},
                f.number("samples_per_s")};
    for (size_t i = 0; i < kCategoryCount; ++i) e.ledger[i] = categories.ms_as_ns(kCategoryNames[i].data());
    s.epochs.push_back(std::move(e));
  }
  for (const JsonFields& f : root.children("collectives")) {
    s.collectives.push_back({f.text("group"), f.text("op"), f.ints("ranks"), f.number_or_zero("per_step"),
                             f.number_or_zero("bytes_per_step"), f.number("transfer_ms"), f.number("wait_ms"),
                             f.number("bus_gb_per_s")});
  }
  for (const JsonFields& f : root.child("memory").children("ranks")) {
    s.memory.push_back({f.int_or("rank", 0), f.number("allocated_bytes"), f.number("reserved_bytes"),
                        f.number("peak_bytes"), f.number("capacity_bytes"), f.number("head_bytes"),
                        f.number("tail_bytes")});
  }
}

void read_observer(const JsonFields& f, ObserverStat& o) {
  o.records = f.count64("records");
  o.lost = f.count64("lost");
  o.torn = f.count64("torn");
  o.overhead_us_per_step = f.number("overhead_us_per_step");
  o.coverage = f.number_or_zero("coverage");
  o.unavailable = f.texts("unavailable");
  o.notes = f.texts("notes");
}

// The primary finding stands in the file as a copy; here it is an index.
int primary_index(const JsonFields& root, std::vector<Finding>& findings) {
  if (!root.has("primary")) return -1;
  Finding primary = read_finding(root.child("primary"));
  const std::string wanted = finding_json(primary);
  const auto found =
      std::find_if(findings.begin(), findings.end(), [&](const Finding& f) { return finding_json(f) == wanted; });
  if (found != findings.end()) return static_cast<int>(found - findings.begin());
  findings.insert(findings.begin(), std::move(primary));
  return 0;
}

}  // namespace

Result<Snapshot> read_summary(std::string_view json, std::string_view source) {
  if (const std::string bound = out_of_bounds(json); !bound.empty()) return fail(formatted("{}: {}", source, bound));
  const nlohmann::json parsed = nlohmann::json::parse(json.begin(), json.end(), nullptr, /*allow_exceptions=*/false);
  if (parsed.is_discarded()) return fail(formatted("{}: not JSON, or cut off", source));
  // Other tools write files of this name too, with a schema_version of their own.
  if (!parsed.is_object() || !parsed.contains("schema_version") || !parsed["schema_version"].is_string() ||
      !parsed.contains("run")) {
    return fail(formatted("{}: not a stepscope summary (schema_version or run is missing)", source));
  }
  const std::string version = parsed["schema_version"].get<std::string>();
  if (!version.starts_with("1.")) {
    return fail(formatted("{}: schema version {} is not known to this stepscope, which reads 1.x", source,
                          version.substr(0, 20)));
  }

  std::string problem;
  const JsonFields root(&parsed, "", &problem);
  Snapshot s;
  s.run = read_run(root.child("run"));
  for (const JsonFields& f : root.children("findings")) s.findings.push_back(read_finding(f));
  s.primary = primary_index(root, s.findings);
  for (const JsonFields& f : root.children("checks"))
    s.checks.push_back({f.text("name"), f.flag("passed"), f.number("value"), f.number("limit"), f.text("text")});
  read_steps(root.child("steps"), s);
  for (const JsonFields& f : root.children("per_rank")) s.ranks.push_back(read_rank(f));
  read_ledger(root.child("ledger"), s);
  read_tables(root, s);
  s.throughput = root.number_map("throughput");
  s.system = root.number_map("system");
  s.process = root.number_map("process");
  read_observer(root.child("observer"), s.observer);
  if (!problem.empty()) return fail(formatted("{}: {}", source, problem));
  return s;
}

}  // namespace stepscope
