#include "cli/inspect_run_file.h"

#include <algorithm>
#include <map>

#include "store/run_reader.h"

namespace stepscope {
namespace {

using Json = nlohmann::ordered_json;

Json or_null(int64_t value, int64_t none = -1) { return value == none ? Json(nullptr) : Json(value); }

Json run_json(const std::string& path, const StoredRun& run) {
  return {{"run_file", path},
          {"name", run.name},
          {"started_at", run.started_at},
          {"status", run.status},
          {"exit_code", or_null(run.exit_code)},
          {"duration_s", run.duration_s},
          {"world_size", run.world_size},
          {"nodes", run.nodes},
          {"attempts", run.attempts}};
}

// The steps of one attempt that are kept one by one or thinned out.
struct Steps {
  uint64_t first = UINT64_MAX, last = 0, rows = 0, cells = 0;
  uint32_t most_stride = 1;
};

Result<std::map<int32_t, Steps>> steps_of(RunReader& reader) {
  std::map<int32_t, Steps> out;
  const Status status = reader.for_each_row({}, [&](const StoredRow& row) {
    Steps& steps = out[row.attempt];
    steps.first = std::min(steps.first, row.row.step);
    steps.last = std::max(steps.last, row.row.step);
    steps.most_stride = std::max(steps.most_stride, row.stride);
    ++steps.rows;
    steps.cells += row.row.cells.size();
    return true;
  });
  if (!status) return std::unexpected(status.error());
  return out;
}

Json life_json(const RankLife& life) {
  return {{"rank", life.rank},
          {"attempt", life.attempt},
          {"hostname", life.hostname},
          {"pid", life.pid},
          {"steps", life.steps},
          {"records", life.records},
          {"lost", life.lost},
          {"exit_code", or_null(life.exit_code)},
          {"exit_signal", or_null(life.exit_signal, 0)}};
}

}  // namespace

Result<std::vector<Json>> inspect_run_file(const std::string& path) {
  auto reader = RunReader::open(path);
  if (!reader) return std::unexpected(reader.error());
  std::vector<Json> lines;
  Error trouble;
  // Takes an answer, or remembers why there is none.
  const auto told = [&](auto&& answer) {
    if (!answer) trouble = answer.error();
    return static_cast<bool>(answer);
  };
  const auto run = reader->run();
  const auto lives = reader->lives();
  const auto steps = steps_of(*reader);
  const auto sums = reader->sums();
  const auto series = reader->series();
  const auto findings = reader->findings();
  const auto events = reader->events();
  const auto sizes = reader->sizes();
  if (!told(run) || !told(lives) || !told(steps) || !told(sums) || !told(series) || !told(findings) || !told(events) ||
      !told(sizes))
    return std::unexpected(trouble);
  lines.push_back(run_json(path, *run));
  for (const auto& [attempt, s] : *steps)
    lines.push_back({{"attempt", attempt},
                     {"first_step", s.first},
                     {"last_step", s.last},
                     {"rows", s.rows},
                     {"cells", s.cells},
                     {"most_stride", s.most_stride}});
  for (const RankLife& life : *lives) lines.push_back(life_json(life));
  for (const SeriesKey& key : *series)
    lines.push_back({{"signal", key.name}, {"scope", key.scope}, {"idx", or_null(key.idx)}});
  for (const StoredSize& size : *sizes)
    lines.push_back({{"metric", size.metric}, {"blocks", size.blocks}, {"bytes", size.bytes}});
  lines.push_back({{"steps", sums->steps},
                   {"findings", findings->size()},
                   {"events", events->size()},
                   {"damaged", reader->damaged()},
                   {"damage", reader->damage()}});
  return lines;
}

}  // namespace stepscope
