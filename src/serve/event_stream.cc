#include "serve/event_stream.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/text_format.h"
#include "report/narrative.h"
#include "serve/routes.h"

namespace stepscope {
namespace {

using Json = nlohmann::ordered_json;

std::string event(const char* name, const Json& data, int64_t id = -1) {
  std::string out = std::string("event: ") + name + "\n";
  if (id >= 0) out += "id: " + std::to_string(id) + "\n";
  return out + "data: " + data.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n\n";
}

Json state_json(const RunState& run) {
  const Snapshot& s = *run.snapshot;
  const Verdict verdict = verdict_of(s);
  return {{"run", run.name},
          {"version", run.version},
          {"status", s.run.status},
          {"going_on", run.going_on},
          {"steps", s.steps},
          {"name", verdict.name},
          {"severity", name(verdict.severity)},
          {"headline", verdict.headline},
          {"cost", verdict.cost},
          {"step", format_ms(s.wall_ms.p50)},
          {"duration", format_seconds(s.run.duration_s)}};
}

std::string new_steps(const RunState& run, EventCursor& cursor) {
  Json walls = Json::array();
  int64_t first = -1, last = cursor.after_step;
  for (const StepPoint& point : run.snapshot->recent) {
    const auto step = static_cast<int64_t>(std::min<uint64_t>(point.step, kMaxStep));
    if (step <= cursor.after_step) continue;
    if (first < 0) first = step;
    last = step;
    walls.push_back(std::isfinite(point.wall_ms) ? Json(std::round(point.wall_ms * 1e3) / 1e3) : Json(nullptr));
  }
  if (first < 0) return "";
  cursor.after_step = last;
  return event("steps", {{"run", run.name}, {"from", first}, {"to", last}, {"wall_ms", std::move(walls)}}, last);
}

}  // namespace

std::string next_events(const RunState& run, EventCursor& cursor, uint64_t now_ns) {
  std::string out;
  if (run.snapshot && run.version != cursor.version && !cursor.ended) {
    cursor.version = run.version;
    out = new_steps(run, cursor) + event("state", state_json(run));
    if (!run.going_on) {
      out += event("end", {{"run", run.name}});
      cursor.ended = true;
    }
  }
  if (out.empty() && now_ns >= cursor.told_ns + kBeatNs) out = event("beat", Json::object());
  if (!out.empty()) cursor.told_ns = now_ns;
  return out;
}

int64_t step_of_event_id(const std::string& text) {
  int64_t step = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  return error == std::errc() && end == text.data() + text.size() && step >= 0 && step <= kMaxStep ? step : -1;
}

}  // namespace stepscope
