#include "serve/routes.h"

#include <algorithm>
#include <charconv>

namespace stepscope {
namespace {

using Kind = RouteParameter::Kind;

constexpr std::string_view kJson = "application/json";
const RouteParameter kFrom{"from", Kind::kStep, false, "first step (default: 0)"};
const RouteParameter kTo{"to", Kind::kStep, false, "last step, included (default: the newest)"};
const RouteParameter kBinsAsked{"bins", Kind::kBins, false, "columns at most; several steps share one (default: 1024)"};

const std::vector<RouteInfo>& table() {
  static const std::vector<RouteInfo> rows = {
      {Route::kRuns, "/api/v1/runs", "Runs of the logs folder, newest first, live ones included", kJson, "Runs", {}},
      {Route::kSummary, "/api/v1/runs/{run}/summary", "final_summary.json of a run as it stands", kJson, "Summary", {}},
      {Route::kPage,
       "/api/v1/runs/{run}/page",
       "The page that every view draws: verdict, blocks, words and figures",
       kJson,
       "Page",
       {}},
      {Route::kFindings,
       "/api/v1/runs/{run}/findings",
       "Findings, primary first, with their words and evidence",
       kJson,
       "Findings",
       {}},
      {Route::kLedger,
       "/api/v1/runs/{run}/ledger",
       "The time ledger of job and ranks, and the step as a waterfall",
       kJson,
       "Ledger",
       {}},
      {Route::kRanks, "/api/v1/runs/{run}/ranks", "What is known of each rank", kJson, "Ranks", {}},
      {Route::kCollectives,
       "/api/v1/runs/{run}/collectives",
       "Collectives per group and operation",
       kJson,
       "Collectives",
       {}},
      {Route::kSteps,
       "/api/v1/runs/{run}/steps",
       "Wall time of the job over its steps, and what happened",
       kJson,
       "Steps",
       {kFrom, kTo, kBinsAsked}},
      {Route::kStep, "/api/v1/runs/{run}/steps/{step}", "One step over all ranks", kJson, "Anatomy", {}},
      {Route::kHeat,
       "/api/v1/runs/{run}/heat",
       "Ranks × steps, one byte each",
       kJson,
       "Heat",
       {kFrom, kTo, kBinsAsked, {"measure", Kind::kMeasure, false, "own (default), wait, input or memory"}}},
      {Route::kSamples,
       "/api/v1/runs/{run}/samples",
       "Series of host, rank processes and devices",
       kJson,
       "Samples",
       {}},
      {Route::kCompare,
       "/api/v1/compare",
       "Compares run b with run a, the reference",
       kJson,
       "Comparison",
       {{"a", Kind::kRun, true, "the reference"}, {"b", Kind::kRun, true, "the run to judge"}}},
      {Route::kEvents,
       "/api/v1/events",
       "Server-sent events of a run; Last-Event-ID continues after the step that it names",
       "text/event-stream",
       "",
       {{"run", Kind::kRun, true, "name of the run"}}},
      {Route::kMetrics, "/metrics", "Live runs as Prometheus text", "text/plain", "", {}},
      {Route::kOpenApi, "/openapi.json", "This description", kJson, "OpenApi", {}},
      {Route::kNodeFrames,
       "/api/v1/nodes/frames",
       "One frame of another node's agent; the answer says what has arrived",
       "application/octet-stream",
       "",
       {}},
  };
  return rows;
}

template <class T>
std::optional<T> whole(std::string_view text, T least, T most) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most) return std::nullopt;
  return value;
}

std::string unusable(std::string_view name, std::string_view expected) {
  return std::string(name) + " must be " + std::string(expected);
}

// A folder's own name: what could lead out of the logs folder is no name of a run.
bool is_run_name(std::string_view text) {
  return !text.empty() && text.size() <= 255 && text != "." && text != ".." && text.find('/') == std::string_view::npos;
}

// Puts a parameter into the call; "" or what is wrong with it.
std::string take(const RouteParameter& parameter, const std::string& text, Call& call) {
  switch (parameter.kind) {
    case Kind::kStep: {
      const auto step = whole<int64_t>(text, 0, kMaxStep);
      if (!step) return unusable(parameter.name, "a step number");
      (parameter.name == "from" ? call.from : call.to) = *step;
      return "";
    }
    case Kind::kBins: {
      const auto bins = whole<uint32_t>(text, 1, kMaxBins);
      if (!bins) return unusable(parameter.name, "a whole number from 1 to 4096");
      call.bins = *bins;
      return "";
    }
    case Kind::kMeasure: {
      const auto* found = std::find(std::begin(kMeasureNames), std::end(kMeasureNames), text);
      if (found == std::end(kMeasureNames)) return unusable(parameter.name, "own, wait, input or memory");
      call.measure = static_cast<Measure>(found - std::begin(kMeasureNames));
      return "";
    }
    case Kind::kRun:
      if (!is_run_name(text)) return unusable(parameter.name, "the name of a run");
      (parameter.name == "a" ? call.a : parameter.name == "b" ? call.b : call.run) = text;
      return "";
  }
  return "";
}

// Fills what stands in the path; false: another route.
bool match_path(std::string_view pattern, const std::vector<std::string>& segments, Call& call, std::string& wrong) {
  size_t at = 0;
  for (size_t begin = 1; begin <= pattern.size(); ++at) {
    const size_t end = std::min(pattern.find('/', begin), pattern.size());
    const std::string_view part = pattern.substr(begin, end - begin);
    begin = end + 1;
    if (at >= segments.size()) return false;
    if (part == "{run}") {
      call.run = segments[at];
      if (!is_run_name(segments[at])) wrong = unusable("run", "the name of a run");
    } else if (part == "{step}") {
      const auto step = whole<int64_t>(segments[at], 0, kMaxStep);
      if (!step) wrong = unusable("step", "a step number");
      call.step = step.value_or(-1);
    } else if (part != segments[at]) {
      return false;
    }
  }
  return at == segments.size();
}

std::expected<Call, HttpAnswer> with_parameters(const RouteInfo& info, const Target& target, Call call) {
  for (const auto& [name, text] : target.parameters) {
    if (name == "token") continue;  // access.h
    const auto found = std::ranges::find(info.parameters, std::string_view(name), &RouteParameter::name);
    if (found == info.parameters.end()) return std::unexpected(answer_error(422, "no such parameter here: " + name));
    if (const std::string wrong = take(*found, text, call); !wrong.empty())
      return std::unexpected(answer_error(422, wrong));
  }
  for (const RouteParameter& parameter : info.parameters)
    if (parameter.required && !target.parameters.contains(std::string(parameter.name)))
      return std::unexpected(answer_error(422, "a parameter is missing: " + std::string(parameter.name)));
  if (call.to >= 0 && call.from > call.to) return std::unexpected(answer_error(422, "from must not exceed to"));
  return call;
}

}  // namespace

std::span<const RouteInfo> routes() { return table(); }

bool takes_body(const Target& target) {
  const auto call = parse_call(target);
  return call && call->route == Route::kNodeFrames;
}

std::expected<Call, HttpAnswer> parse_call(const Target& target) {
  for (const RouteInfo& info : table()) {
    Call call{.route = info.route};
    std::string wrong;
    if (!match_path(info.path, target.segments, call, wrong)) continue;
    if (!wrong.empty()) return std::unexpected(answer_error(422, wrong));
    return with_parameters(info, target, std::move(call));
  }
  if (!target.segments.empty() && target.segments.front() == "api")
    return std::unexpected(answer_error(404, "no such address; /openapi.json lists them"));
  Call call;
  for (const std::string& segment : target.segments) call.asset += (call.asset.empty() ? "" : "/") + segment;
  return call;
}

}  // namespace stepscope
