#include "serve/answers.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "align/host_series.h"
#include "base/text_format.h"
#include "report/evidence_table.h"
#include "report/figures.h"
#include "report/table.h"
#include "report/summary_json.h"
#include "serve/page_json.h"
#include "serve/step_meeting.h"
#include "serve/step_series.h"
#include "store/metric.h"
#include "store/run_reader.h"

namespace stepscope {
namespace {

using Json = nlohmann::ordered_json;

constexpr PageSize kPageSize = {
    .ranks = 4096, .bars = 16, .heat_rows = 16, .epochs = 64, .findings = 200, .collectives = 256};
constexpr size_t kMaxTicks = 500, kMaxSeries = 512, kMaxPoints = 240;

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// Microseconds are enough for a chart; NaN becomes null.
Json ms_json(double ms) { return std::isfinite(ms) ? Json(std::round(ms * 1e3) / 1e3) : Json(nullptr); }
Json number_json(std::optional<double> value) {
  if (!value || !std::isfinite(*value)) return nullptr;
  return std::fabs(*value) < 1e9 ? std::round(*value * 1e6) / 1e6 : *value;
}
Json floats_json(const std::vector<float>& values) {
  Json out = Json::array();
  for (const float value : values) out.push_back(ms_json(double{value}));
  return out;
}

// What every answer about a run says first.
Json head_of(const RunState& run) {
  return {{"run", run.name}, {"version", run.version}, {"going_on", run.going_on}, {"note", run.note}};
}

std::string base64(const std::vector<uint8_t>& bytes) {
  constexpr const char* kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t left = std::min<size_t>(3, bytes.size() - i);
    uint32_t word = uint32_t{bytes[i]} << 16;
    if (left > 1) word |= uint32_t{bytes[i + 1]} << 8;
    if (left > 2) word |= bytes[i + 2];
    for (size_t k = 0; k < 4; ++k) out += k <= left ? kLetters[(word >> (18 - 6 * k)) & 63] : '=';
  }
  return out;
}

Json range_json(const StepRange& range) {
  return {
      {"first", range.first}, {"last", range.last}, {"from", range.from}, {"to", range.to}, {"per_bin", range.per_bin}};
}

std::vector<std::string> tag_names(uint32_t tags) {
  std::vector<std::string> out;
  for (size_t bit = 0; bit < store::kTagNames.size(); ++bit)
    if (tags & (uint32_t{2} << bit)) out.emplace_back(store::kTagNames[bit]);
  return out;
}

// What happened at which step, for the shared time axis.
Json ticks_of(const RunState& run, const StepRange& range) {
  Json out = Json::array();
  const auto add = [&](int64_t step, std::string_view kind, std::string text) {
    if (step < range.from || step > range.to || out.size() >= kMaxTicks) return;
    out.push_back({{"step", step}, {"kind", kind}, {"text", std::move(text)}});
  };
  for (const Finding& f : run.snapshot->findings)
    if (f.severity != Severity::kInfo) add(f.first_step, "finding", display_name(f.kind) + ": " + f.title);
  if (run.run_file.empty()) return out;
  auto reader = RunReader::open(run.run_file);
  if (!reader) return out;  // the steps say what is wrong with the file
  if (const auto events = reader->events())
    for (const RunEvent& event : *events) add(event.step, event.kind, event.text);
  return out;
}

// Of one rank in one step; ledger order, the stalls after backward, as DDP has them.
Json parts_of(const Cell& cell) {
  Json out = Json::array();
  for (size_t c = 0; c < kCategoryCount; ++c)
    if (cell.ms[c] > 0) out.push_back({{"category", kCategoryNames[c]}, {"ms", ms_json(double{cell.ms[c]})}});
  return out;
}

// Which rank this one waited for most, -1 = none.
int waited_for(const StepRow& row, int rank) {
  int causer = -1;
  float most = 0;
  for (const Blame& blame : row.caused)
    if (blame.waiter == rank && blame.ms > most) most = blame.ms, causer = blame.causer;
  return causer;
}

std::vector<SeriesPoint> thinned(const std::vector<SeriesPoint>& points) {
  const size_t count = std::min(points.size(), kMaxPoints);
  std::vector<SeriesPoint> out;
  for (size_t p = 0; p < count; ++p) {
    const auto begin = points.begin() + static_cast<std::ptrdiff_t>(p * points.size() / count);
    const auto end = points.begin() + static_cast<std::ptrdiff_t>((p + 1) * points.size() / count);
    out.push_back(
        *std::max_element(begin, end, [](const SeriesPoint& a, const SeriesPoint& b) { return a.value < b.value; }));
  }
  return out;
}

}  // namespace

std::string runs_answer(const std::vector<RunDigest>& runs, const std::string& logs) {
  Json list = Json::array();
  for (const RunDigest& d : runs) {
    list.push_back({{"name", d.name},
                    {"status", d.status},
                    {"going_on", d.going_on},
                    {"started_at", d.started_at},
                    {"command", d.command},
                    {"duration_s", number_json(d.duration_s)},
                    {"duration", d.duration_s > 0 ? format_seconds(d.duration_s) : std::string(kNotMeasured)},
                    {"world_size", d.world_size},
                    {"nodes", d.nodes},
                    {"steps", d.steps},
                    {"step_p50_ms", number_json(d.step_p50_ms)},
                    {"step", format_ms(d.step_p50_ms)},
                    {"samples_per_s", number_json(d.samples_per_s)},
                    {"peak_bytes", number_json(d.peak_bytes)},
                    {"peak", format_bytes(d.peak_bytes)},
                    {"verdict", d.verdict.empty() ? std::string() : display_name(d.verdict)},
                    {"severity", name(d.severity)},
                    {"title", d.title},
                    {"cost", d.cost_share ? format_percent(d.cost_share) : std::string()},
                    {"walls_ms", floats_json(d.walls_ms)},
                    {"trouble", d.trouble}});
  }
  return dump({{"logs", logs}, {"runs", std::move(list)}});
}

std::string page_answer(const RunState& run) {
  Json out = head_of(run);
  out["page"] = page_json(build_page(*run.snapshot, kPageSize));
  return dump(out);
}

std::string findings_answer(const RunState& run) {
  Json list = Json::array();
  for (const Finding& f : run.snapshot->findings)
    list.push_back({{"finding", Json::parse(finding_json(f))}, {"words", verdict_json(verdict_of(*run.snapshot, f))}});
  Json out = head_of(run);
  out["findings"] = std::move(list);
  return dump(out);
}

std::string ledger_answer(const RunState& run) {
  const Snapshot& s = *run.snapshot;
  const auto per_step = [](const LedgerNs& ledger, uint64_t steps) {
    Json parts = Json::array();
    for (const LedgerSlice& slice : ledger_slices(ledger))
      parts.push_back(
          {{"category", name(slice.category)},
           {"label", category_label(name(slice.category))},
           {"share", number_json(slice.share)},
           {"ms_per_step",
            steps > 0 ? ms_json(static_cast<double>(slice.ns) / 1e6 / static_cast<double>(steps)) : Json()}});
    return parts;
  };
  Json ranks = Json::array();
  for (const RankStat& rank : s.ranks)
    ranks.push_back({{"rank", rank.rank}, {"parts", per_step(rank.ledger, rank.steps)}});
  Json out = head_of(run);
  out["clock"] = s.job_clock;
  out["job"] = per_step(s.job_ledger, s.steps);
  out["ranks"] = std::move(ranks);
  return dump(out);
}

std::string ranks_answer(const RunState& run) {
  Json list = Json::array();
  for (const RankStat& r : run.snapshot->ranks) {
    Json phases = Json::object();
    for (const auto& [phase, ms] : r.phase_ms) phases[phase] = number_json(ms);
    list.push_back({{"rank", r.rank},
                    {"local_rank", r.local_rank},
                    {"node", r.node},
                    {"hostname", r.hostname},
                    {"pid", r.pid},
                    {"state", r.state.str()},
                    {"steps", r.steps},
                    {"step_ms", number_json(r.step_ms)},
                    {"own_ms", number_json(r.own_ms)},
                    {"stall_ms", number_json(r.stall_ms)},
                    {"caused_wait_ms", number_json(r.caused_wait_ms)},
                    {"phase_ms", std::move(phases)},
                    {"cpu_share", number_json(r.cpu_share)},
                    {"rss_peak_bytes", number_json(r.rss_peak_bytes)},
                    {"samples_per_s", number_json(r.samples_per_s)}});
  }
  Json memory = Json::array();
  for (const DeviceMemoryRank& m : run.snapshot->memory)
    memory.push_back({{"rank", m.rank},
                      {"allocated_bytes", number_json(m.allocated_bytes)},
                      {"reserved_bytes", number_json(m.reserved_bytes)},
                      {"peak_bytes", number_json(m.peak_bytes)},
                      {"capacity_bytes", number_json(m.capacity_bytes)},
                      {"head_bytes", number_json(m.head_bytes)},
                      {"tail_bytes", number_json(m.tail_bytes)}});
  Json out = head_of(run);
  out["ranks"] = std::move(list);
  out["memory"] = std::move(memory);
  return dump(out);
}

std::string collectives_answer(const RunState& run) {
  Json list = Json::array();
  for (const CollectiveStat& c : run.snapshot->collectives)
    list.push_back({{"group", c.group},
                    {"op", c.op},
                    {"ranks", c.ranks},
                    {"per_step", number_json(c.per_step)},
                    {"bytes_per_step", number_json(c.bytes_per_step)},
                    {"transfer_ms", number_json(c.transfer_ms)},
                    {"wait_ms", number_json(c.wait_ms)},
                    {"bus_gb_per_s", number_json(c.bus_gb_per_s)}});
  Json out = head_of(run);
  out["collectives"] = std::move(list);
  return dump(out);
}

Result<std::string> steps_answer(const RunState& run, const Call& call) {
  auto bins = step_bins(run, call);
  if (!bins) return std::unexpected(bins.error());
  Json tags = Json::array();
  for (size_t bin = 0; bin < bins->tags.size(); ++bin)
    if (const auto names = tag_names(bins->tags[bin]); !names.empty()) tags.push_back({{"bin", bin}, {"tags", names}});
  Json out = head_of(run);
  out["range"] = range_json(bins->range);
  out["longest_ms"] = floats_json(bins->longest_ms);
  out["shortest_ms"] = floats_json(bins->shortest_ms);
  out["median_ms"] = number_json(run.snapshot->wall_ms.p50);
  out["tags"] = std::move(tags);
  out["ticks"] = ticks_of(run, bins->range);
  return dump(out);
}

Result<std::string> heat_answer(const RunState& run, const Call& call) {
  auto heat = heat_of(run, call);
  if (!heat) return std::unexpected(heat.error());
  Json out = head_of(run);
  out["range"] = range_json(heat->range);
  out["measure"] = kMeasureNames[static_cast<size_t>(call.measure)];
  out["scale"] = {{"ratio", heat->scale.ratio}, {"low", heat->scale.low}, {"high", heat->scale.high}};
  out["ranks"] = heat->ranks;
  out["reference_ms"] = floats_json(heat->reference_ms);
  out["levels"] = base64(heat->levels);
  return dump(out);
}

Result<std::string> step_answer(const RunState& run, int64_t step) {
  auto row = row_of(run, step);
  if (!row) return std::unexpected(row.error());
  if (!*row)
    return fail(formatted("step {} is not kept: it is thinned out, not written yet, or not of this run", step));
  Json ranks = Json::array();
  const StepRow& r = (*row)->row;
  for (const Cell& cell : r.cells)
    ranks.push_back({{"rank", cell.rank},
                     {"wall_ms", ms_json(double{cell.wall_ms})},
                     {"own_ms", ms_json(double{cell.own_ms()})},
                     {"wait_ms", ms_json(double{cell.ms[index(Category::kStragglerWait)]})},
                     {"caused_ms", ms_json(double{cell.caused_ms})},
                     {"waited_for", waited_for(r, cell.rank)},
                     {"clock", cell.gpu ? "gpu" : "cpu"},
                     {"collectives", cell.collectives},
                     {"bytes", number_json(double{cell.bytes})},
                     {"parts", parts_of(cell)}});
  Json out = head_of(run);
  out["step"] = step;
  out["steps"] = (*row)->stride;
  out["attempt"] = (*row)->attempt;
  out["wall_ms"] = ms_json(double{r.wall_ms});
  out["median_ms"] = number_json(run.snapshot->wall_ms.p50);
  out["tags"] = tag_names(r.tags);
  out["ranks"] = std::move(ranks);
  const auto meeting = meeting_of(r);
  out["meeting"] = meeting ? Json{{"first_ms", ms_json(double{meeting->first_ms})},
                                  {"last_ms", ms_json(double{meeting->last_ms})},
                                  {"end_ms", ms_json(double{meeting->end_ms})},
                                  {"last_rank", meeting->last_rank},
                                  {"tail_rank", meeting->tail_rank}}
                           : Json();
  return dump(out);
}

namespace {

Json series_json(const std::string& scope, int idx, const std::string& name, const std::vector<SeriesPoint>& points) {
  Json at = Json::array(), values = Json::array();
  double most = 0;
  for (const SeriesPoint& point : thinned(points)) {
    at.push_back(ms_json(point.at_s));
    values.push_back(number_json(point.value));
    most = std::max(most, point.value);
  }
  return {{"scope", scope},
          {"idx", idx},
          {"name", name},
          {"label", value_label(name)},
          {"largest", format_value(name, most)},
          {"newest", format_value(name, points.back().value)},
          {"at_s", std::move(at)},
          {"values", std::move(values)}};
}

Result<Json> stored_series(const std::string& file) {
  Json list = Json::array();
  auto reader = RunReader::open(file);
  if (!reader) return std::unexpected(reader.error());
  const auto series = reader->series();
  if (!series) return std::unexpected(series.error());
  for (const SeriesKey& key : *series) {
    if (list.size() == kMaxSeries) break;
    if (const auto points = reader->samples(key); points && !points->empty())
      list.push_back(series_json(key.scope, key.idx, key.name, *points));
  }
  return list;
}

Json live_series(const HostFacts& facts) {
  Json list = Json::array();
  for_each_series(facts, [&](const char* scope, int idx, const char* name, const SampledSeries& series) {
    if (series.points.empty() || list.size() == kMaxSeries) return;
    std::vector<SeriesPoint> points;
    for (const SamplePoint& point : series.points)
      points.push_back({static_cast<double>(point.time_ns - series.points.front().time_ns) * 1e-9, point.value});
    list.push_back(series_json(scope, idx, name, points));
  });
  return list;
}

}  // namespace

Result<std::string> samples_answer(const RunState& run) {
  Json list = Json::array();
  if (run.host) {
    list = live_series(*run.host);
  } else if (!run.run_file.empty()) {
    auto stored = stored_series(run.run_file);
    if (!stored) return std::unexpected(stored.error());
    list = std::move(*stored);
  }
  Json out = head_of(run);
  out["series"] = std::move(list);
  return dump(out);
}

std::string comparison_answer(const Snapshot& a, const Snapshot& b) {
  const Comparison c = compare(a, b);
  Json out;
  out["comparison"] = Json::parse(compare_json(c));
  out["table"] = table_json(compare_table(c));
  return dump(out);
}

}  // namespace stepscope
