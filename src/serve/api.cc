#include "serve/api.h"

#include <algorithm>

#include "report/summary_json.h"
#include "report/text_options.h"
#include "serve/answers.h"
#include "serve/metrics_text.h"
#include "serve/openapi.h"

namespace stepscope {
namespace {

constexpr const char *kJson = "application/json", *kPrometheus = "text/plain; version=0.0.4; charset=utf-8";

Result<std::string> body_of(const RunState& run, const Call& call) {
  switch (call.route) {
    case Route::kSummary: return summary_json(*run.snapshot, {});
    case Route::kPage: return page_answer(run);
    case Route::kFindings: return findings_answer(run);
    case Route::kLedger: return ledger_answer(run);
    case Route::kRanks: return ranks_answer(run);
    case Route::kCollectives: return collectives_answer(run);
    case Route::kSteps: return steps_answer(run, call);
    case Route::kStep: return step_answer(run, call.step);
    case Route::kHeat: return heat_answer(run, call);
    case Route::kSamples: return samples_answer(run);
    default: return fail("not about a run");
  }
}

std::string key_of(const Call& call) {
  std::string key = call.run;
  for (const int64_t part : {static_cast<int64_t>(call.route), call.step, call.from, call.to,
                             static_cast<int64_t>(call.bins), static_cast<int64_t>(call.measure)})
    key += '/' + std::to_string(part);
  return key;
}

}  // namespace

HttpAnswer Api::answer(const Call& call, const std::string& if_none_match) {
  switch (call.route) {
    case Route::kRuns: return answer_with(200, kJson, runs_answer(shelf_.list(), shelf_.logs()));
    case Route::kMetrics: return answer_with(200, kPrometheus, metrics());
    case Route::kOpenApi: return answer_with(200, kJson, openapi_json());
    case Route::kCompare: return comparison(call);
    default: return of_run(call, if_none_match);
  }
}

// Not there: for good, or not yet.
HttpAnswer Api::missing(const std::string& run, const Error& error) const {
  if (!shelf_.loading() || !shelf_.knows(run)) return answer_error(404, error.message);
  HttpAnswer answer = answer_error(503, error.message);
  answer.fields.emplace_back("Retry-After", "1");
  return answer;
}

HttpAnswer Api::of_run(const Call& call, const std::string& if_none_match) {
  const auto run = shelf_.find(call.run);
  if (!run) return missing(call.run, run.error());
  const std::string tag = "\"" + std::to_string(run->version) + "\"";
  HttpAnswer out;
  out.fields.emplace_back("ETag", tag);
  if (if_none_match == tag) {
    out.status = 304;
    return out;
  }
  const std::string key = key_of(call);
  const auto found = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& k) { return k.key == key; });
  if (found != kept_.end() && found->version == run->version) {
    kept_.splice(kept_.begin(), kept_, found);
    out.body = found->body;
    return out;
  }
  auto body = body_of(*run, call);
  if (!body) return answer_error(404, body.error().message);
  out.body = std::make_shared<const std::string>(std::move(*body));
  keep({key, run->version, out.body});
  return out;
}

void Api::keep(Kept kept) {
  std::erase_if(kept_, [&](const Kept& k) {
    if (k.key == kept.key) kept_bytes_ -= k.body->size();
    return k.key == kept.key;
  });
  kept_bytes_ += kept.body->size();
  kept_.push_front(std::move(kept));
  while (kept_bytes_ > kMaxKeptBytes && kept_.size() > 1) {
    kept_bytes_ -= kept_.back().body->size();
    kept_.pop_back();
  }
}

HttpAnswer Api::comparison(const Call& call) {
  const auto a = shelf_.find(call.a);
  if (!a) return missing(call.a, a.error());
  const auto b = shelf_.find(call.b);
  if (!b) return missing(call.b, b.error());
  return answer_with(200, kJson, comparison_answer(*a->snapshot, *b->snapshot));
}

std::string Api::metrics() {
  std::vector<RunState> runs;
  for (const RunDigest& digest : shelf_.list()) {
    if (!digest.going_on || runs.size() == kMaxMetricRuns) break;  // those that go on come first
    if (auto run = shelf_.find(digest.name)) runs.push_back(std::move(*run));
  }
  return metrics_text(runs);
}

std::expected<std::string, HttpAnswer> Api::events(const std::string& name, EventCursor& cursor, uint64_t now_ns) {
  const uint64_t version = shelf_.version(name);
  if (version == 0 && !shelf_.knows(name)) return std::unexpected(answer_error(404, "no run is called " + name));
  if (version == 0 || version == cursor.version) return next_events({.version = cursor.version}, cursor, now_ns);
  const auto run = shelf_.find(name);
  // A file that cannot be read just now may be readable later.
  return next_events(run ? *run : RunState{.version = cursor.version}, cursor, now_ns);
}

}  // namespace stepscope
